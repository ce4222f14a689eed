// The page: who is here, where they are, and the views beside each other.

import { Component } from "preact";
import { Api } from "./api";
import { type Credential, enter, forget, takeFragment } from "./credential";
import { HelpDialog, NewSessionDialog } from "./dialogs";
import { Icon } from "./icons";
import { SessionLink } from "./link";
import { isTyping } from "./question-view";
import { type Route, readRoute } from "./route";
import { ServerPage } from "./server-view";
import { SessionList } from "./session-list";
import { SessionView } from "./session-view";
import { Sessions } from "./sessions";
import { next as nextTheme } from "./theme";
import type { SessionRow } from "./wire";

/** Conversations kept in memory, so that going back to one is immediate. */
const LINKS_MAX = 6;

interface State {
  credential: Credential | null;
  gate: { kind: "entering" } | { kind: "in" } | { kind: "out"; why: string | null };
  route: Route;
  drafts: Record<string, string>;
  open: "help" | "new" | null;
  said: string | null;
}

export class App extends Component<Record<string, never>, State> {
  override state: State = { credential: null, gate: { kind: "entering" }, route: readRoute(location.hash), drafts: {}, open: null, said: null };

  private api: Api | null = null;
  private sessions: Sessions | null = null;
  private links = new Map<string, SessionLink>();
  private current: SessionLink | null = null;
  private saidTimer = 0;

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
    if (this.current?.id === id) return;
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
    const row = await this.api?.session(id).catch(() => null);
    if (row && this.sessions && !this.sessions.row(id)) {
      this.sessions.rows = [...this.sessions.rows, row];
      this.follow();
    } else if (!row) this.say("There is no such session");
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
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (this.current && this.current.conversation.turn.state !== "idle" && !this.state.credential?.isShare) this.current.cancel();
      else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      return;
    }
    if (isTyping(event.target) || this.state.gate.kind !== "in") return;
    const act = this.acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

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
    this.saidTimer = window.setTimeout(() => this.setState({ said: null }), 4_000);
  };

  override render(_: Record<string, never>, { gate, route, credential, drafts, open, said }: State) {
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
          ) : <main class="session nothing"><h1 class="hidden">Fastness</h1><p class="empty">{id ? "Loading…" : credential.isShare ? "Waiting for the session…" : "Choose a session, or start a new one."}</p></main>}
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
