// The page: who is here, where they are, and the views beside each other.

import { Component } from "preact";
import { Api, Refused } from "./api";
import { type Credential, enter, forget, takeFragment } from "./credential";
import { HelpDialog, NewSessionDialog } from "./dialogs";
import { isIme, isTyping, isWriting, promptField } from "./guard";
import { Icon } from "./icons";
import { SessionLink } from "./link";
import { NotFound } from "./not-found";
import { type Route, readRoute } from "./route";
import { ServerPage } from "./server-view";
import { SessionList } from "./session-list";
import { SessionView } from "./session-view";
import { Sessions } from "./sessions";
import { next as nextTheme } from "./theme";
import type { SessionRow } from "./wire";

/** Conversations kept in memory, so that going back to one is immediate. */
const LINKS_MAX = 6;
/** How long a word of the page's own stays. */
const SAID_MS = 4_000;

interface State {
  credential: Credential | null;
  gate: { kind: "entering" } | { kind: "in" } | { kind: "out"; why: string | null };
  route: Route;
  drafts: Record<string, string>;
  open: "help" | "new" | null;
  said: string | null;
  /** Why the session of the address cannot be shown. */
  missing: { id: string; why: "absent" | "unreachable" } | null;
}

export class App extends Component<Record<string, never>, State> {
  override state: State = { credential: null, gate: { kind: "entering" }, route: readRoute(location.hash), drafts: {}, open: null, said: null, missing: null };

  private api: Api | null = null;
  private sessions: Sessions | null = null;
  private links = new Map<string, SessionLink>();
  private current: SessionLink | null = null;
  private saidTimer = 0;
  /** The session that is being looked for. */
  private finding: string | null = null;
  /** When the user was last told that Esc drops queued prompts. */
  private warnedAt = -Infinity;

  override componentDidMount() {
    window.addEventListener("hashchange", this.moved);
    window.addEventListener("online", () => this.current?.retry());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.current?.retry(); });
    document.addEventListener("keydown", this.pressed);
    void this.logIn();
  }

  private async logIn() {
    try {
      const credential = await enter(takeFragment());
      if (!credential) return this.setState({ gate: { kind: "out", why: null } });
      this.api = new Api(credential.token, this.loggedOut);
      await this.api.sessions();
      this.sessions = new Sessions(this.api);
      this.sessions.observe(() => this.listed());
      this.sessions.start();
      this.setState({ credential, gate: { kind: "in" } }, () => this.moved());
    } catch (error) {
      this.setState({ gate: { kind: "out", why: error instanceof Error ? error.message : String(error) } });
    }
  }

  private loggedOut = () => {
    forget();
    this.current?.close();
    this.sessions?.stop();
    const isShare = this.state.credential?.isShare;
    this.setState({ gate: { kind: "out", why: isShare ? "This share link has ended." : "This login has ended." } });
  };

  /** Goes where the address says. A new ticket or share link in it is a new beginning. */
  private moved = () => {
    if (/^#(ticket|share)=/.test(location.hash)) return location.reload();
    const route = readRoute(location.hash);
    this.setState({ route }, () => this.follow());
  };

  private listed() {
    this.follow();
    this.forceUpdate();
  }

  /** Has the connection follow the view: one session at a time. */
  private follow() {
    const { route, credential } = this.state;
    if (credential?.isShare && route.kind === "list" && this.sessions?.rows[0]) {
      location.replace(`#/s/${this.sessions.rows[0].id}`);
      return;
    }
    const id = route.kind === "session" ? route.id : null;
    const isOpen = this.current?.id === id;
    if (isOpen) {
      // A session that left the list may have been deleted.
      if (id && this.sessions?.hasLeft(id)) void this.find(id);
      return;
    }
    const row = id ? this.sessions?.row(id) ?? null : null;
    if (id && !row) {
      if (this.sessions?.isLoaded) void this.find(id);
      return;
    }
    this.current?.close();
    this.current = row ? this.link(row) : null;
    this.current?.open();
    this.forceUpdate();
  }

  /** A session that is not among the newest may be there all the same. */
  private async find(id: string) {
    const { missing } = this.state;
    if (this.finding === id || (missing?.id === id && missing.why === "absent")) return;
    this.finding = id;
    try {
      const row = await (this.api as Api).session(id);
      if (this.sessions && !this.sessions.row(id)) this.sessions.rows = [...this.sessions.rows, row];
      this.setState({ missing: null }, () => this.follow());
    } catch (error) {
      const isAbsent = error instanceof Refused && [400, 403, 404, 410].includes(error.status);
      if (isAbsent && this.current?.id === id) this.current.gone();
      this.setState({ missing: { id, why: isAbsent ? "absent" : "unreachable" } });
    } finally {
      this.finding = null;
    }
  }

  private link(row: SessionRow): SessionLink {
    const known = this.links.get(row.id);
    if (known) {
      this.links.delete(row.id);
      this.links.set(row.id, known);
      return known;
    }
    const made = new SessionLink(this.api as Api, row.id, row.cwd, row.head);
    this.links.set(row.id, made);
    for (const oldest of this.links.keys()) {
      if (this.links.size <= LINKS_MAX) break;
      this.links.delete(oldest);
    }
    return made;
  }

  private pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || isIme(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return this.escaped(event);
    if (isTyping(event.target) || this.state.gate.kind !== "in") return;
    const act = this.acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  /**
   * Esc does what is nearest: it leaves a field, goes to an open question, and cancels the turn only from the empty
   * prompt or the conversation. What has a meaning of its own for Esc does not let it come here.
   */
  private escaped(event: KeyboardEvent) {
    const active = document.activeElement;
    if (!(active instanceof HTMLElement) || event.repeat) return;
    const isHere = active === promptField() || active.closest(".scroller") !== null;
    const link = this.current;
    const question = document.querySelector<HTMLElement>(".question");
    if (isHere && !isWriting() && question) question.focus();
    else if (isHere && !isWriting() && link && link.conversation.turn.state !== "idle" && this.canCancel()) this.cancel(link);
    else if (isTyping(active)) active.blur();
  }

  private canCancel(): boolean {
    return !this.state.credential?.isShare && promptField() !== null;
  }

  private cancel(link: SessionLink) {
    const { queued } = link.conversation;
    const isWarned = performance.now() - this.warnedAt < SAID_MS;
    if (queued > 0 && !isWarned) {
      this.warnedAt = performance.now();
      this.say(`Esc again cancels the turn and drops ${queued === 1 ? "the queued prompt" : `${queued} queued prompts`}`);
    } else link.cancel();
  }

  private acts: Record<string, () => void> = {
    "?": () => this.setState({ open: "help" }),
    c: () => this.startNew(),
    i: () => focusOn("prompt"),
    "/": () => focusOn("prompt"),
    f: () => focusOn("search"),
    g: () => { if (!this.state.credential?.isShare) location.hash = "#/server"; },
    d: () => this.say(`Theme: ${nextTheme()}`),
    t: () => {
      const { route } = this.state;
      if (route.kind === "session") location.hash = route.isTimeline ? `#/s/${route.id}` : `#/s/${route.id}/timeline`;
    },
  };

  private startNew = () => {
    if (!this.state.credential?.isShare) this.setState({ open: "new" });
  };

  private make = async (cwd: string) => {
    this.setState({ open: null });
    try {
      const row = await (this.api as Api).create(cwd);
      await this.show(row);
      setTimeout(() => focusOn("prompt"), 50);
    } catch (error) {
      this.say(`No session was made: ${error instanceof Error ? error.message : error}`);
    }
  };

  private show = async (row: SessionRow) => {
    await this.sessions?.refresh().catch(() => undefined);
    location.hash = `#/s/${row.id}`;
  };

  private say = (words: string) => {
    clearTimeout(this.saidTimer);
    this.setState({ said: words });
    this.saidTimer = window.setTimeout(() => this.setState({ said: null }), SAID_MS);
  };

  override render(_: Record<string, never>, { gate, route, credential, drafts, open, said, missing }: State) {
    if (gate.kind === "out") return <LoggedOut why={gate.why} />;
    if (gate.kind === "entering" || !this.api || !this.sessions || !credential) return <main class="gate"><p role="status">Logging in…</p></main>;
    const id = route.kind === "session" ? route.id : null;
    const link = this.current;
    return (
      <div class={`app ${route.kind === "list" ? "at-list" : "at-view"} ${credential.isShare ? "shared" : ""}`}>
        {credential.isShare ? null : (
          <aside>
            <header class="brand">
              <a href="#/" class="name">Fastness</a>
              <a class="button quiet" href="#/server" title="Server (g)" aria-label="Server"><Icon name="server" /></a>
              <button class="quiet" onClick={() => this.say(`Theme: ${nextTheme()}`)} title="Light or dark (d)" aria-label="Light or dark"><Icon name="theme" /></button>
              <button class="quiet" onClick={() => this.setState({ open: "help" })} title="Help (?)" aria-label="Help"><Icon name="help" /></button>
            </header>
            <SessionList sessions={this.sessions} selected={id} onNew={this.startNew} />
          </aside>
        )}
        {route.kind === "server" ? <ServerPage api={this.api} />
          : id && link?.id === id ? (
            <SessionView
              key={id} api={this.api} link={link} row={this.sessions.row(id)} isShared={credential.isShare} isTimeline={route.kind === "session" && route.isTimeline}
              draft={drafts[id] ?? ""} onDraft={(draft) => this.setState({ drafts: { ...this.state.drafts, [id]: draft } })}
              onForked={(row) => { this.say("Forked: this is the copy"); void this.show(row); }} say={this.say}
            />
          ) : route.kind === "unknown" || (id && missing?.id === id && missing.why === "absent") ? <NotFound isShared={credential.isShare} draft={drafts[id ?? ""] ?? ""} />
          : <main class="session nothing"><h1 class="hidden">Fastness</h1><p class="empty">{id ? (missing?.id === id ? "The server does not answer. Trying again…" : "Loading…") : credential.isShare ? "Waiting for the session…" : "Choose a session, or start a new one."}</p></main>}
        {open === "help" ? <HelpDialog onClose={() => this.setState({ open: null })} /> : null}
        {open === "new" ? <NewSessionDialog cwd={this.sessions.row(id ?? "")?.cwd ?? this.sessions.rows[0]?.cwd ?? ""} onClose={() => this.setState({ open: null })} onMake={(cwd) => void this.make(cwd)} /> : null}
        <p class={`toast ${said ? "shown" : ""}`} role="status">{said}</p>
      </div>
    );
  }
}

function LoggedOut({ why }: { why: string | null }) {
  return (
    <main class="gate">
      <h1>Fastness</h1>
      {why ? <p class="banner" role="alert">{why}</p> : null}
      <p>You are not logged in here. On the machine that runs the server, run</p>
      <pre><code>fastness open</code></pre>
      <p>It opens this page logged in. <code>fastness open --print</code> prints the address instead; it works once, within a minute.</p>
    </main>
  );
}

function focusOn(id: string): void {
  document.getElementById(id)?.focus();
}
