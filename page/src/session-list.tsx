// The list of sessions: what each is called, where it works, how it stands.

import { useEffect, useRef, useState } from "preact/hooks";
import { isIme, isTyping } from "./guard";
import { Icon } from "./icons";
import { Code, spelled, Words } from "./invisible";
import { useObservable } from "./observable";
import type { Sessions } from "./sessions";
import { ago } from "./time";
import type { SessionRow } from "./wire";

interface Props {
  sessions: Sessions;
  selected: string | null;
  onNew: () => void;
}

const STATES: Record<string, string> = { running: "working", waiting: "needs you", queued: "queued", idle: "idle" };

export function SessionList({ sessions, selected, onNew }: Props) {
  useObservable(sessions);
  const [words, setWords] = useState("");
  const list = useRef<HTMLUListElement>(null);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 20_000);
    return () => clearInterval(timer);
  }, []);
  /** Esc empties the filter, and leaves it when it is empty. */
  const escaped = (event: KeyboardEvent & { currentTarget: HTMLInputElement }) => {
    if (event.key !== "Escape" || isIme(event)) return;
    event.preventDefault();
    event.stopPropagation();
    if (words === "") event.currentTarget.blur();
    else setWords("");
  };
  const shown = sessions.rows.filter((row) => !row.archived && matches(row, words));

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const inList = list.current?.contains(document.activeElement) ?? false;
      const step = event.key === "j" || (inList && event.key === "ArrowDown") ? 1 : event.key === "k" || (inList && event.key === "ArrowUp") ? -1 : 0;
      if (step === 0) return;
      event.preventDefault();
      const links = [...(list.current?.querySelectorAll("a") ?? [])];
      const focused = links.findIndex((link) => link === document.activeElement);
      const start = focused >= 0 ? focused : links.findIndex((link) => link.getAttribute("aria-current") === "page");
      links[Math.max(0, Math.min(links.length - 1, start < 0 ? 0 : start + step))]?.focus();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);

  return (
    <nav class="sessions" aria-label="Sessions">
      <div class="sessions-head">
        <label class="search"><Icon name="search" /><input id="search" type="search" placeholder="Filter" aria-label="Filter sessions" value={words} onInput={(event) => setWords(event.currentTarget.value)} onKeyDown={escaped} /></label>
        <button class="primary" onClick={onNew} title="New session (c)"><Icon name="plus" /> New</button>
      </div>
      {sessions.failure ? <p class="banner" role="status">{sessions.failure}. Trying again…</p> : null}
      <ul ref={list}>
        {shown.map((row) => <Row key={row.id} row={row} isSelected={row.id === selected} now={now} />)}
      </ul>
      {sessions.isLoaded && shown.length === 0 ? <p class="empty">{words ? "No session matches." : "No sessions yet. Start one with New, or press c."}</p> : null}
    </nav>
  );
}

function Row({ row, isSelected, now }: { row: SessionRow; isSelected: boolean; now: number }) {
  const state = row.turn.state;
  return (
    <li>
      <a href={`#/s/${row.id}`} aria-current={isSelected ? "page" : undefined} class={`row state-${state}`}>
        <span class="row-title"><Words text={row.title || "Untitled session"} /></span>
        <span class="row-meta">
          <span class="state"><span class="dot" aria-hidden="true" />{STATES[state] ?? state}</span>
          <span class="cwd" title={spelled(row.cwd)}><Code text={lastOf(row.cwd)} /></span>
          <time dateTime={row.updatedAt}>{ago(row.updatedAt, now)}</time>
        </span>
      </a>
    </li>
  );
}

function matches(row: SessionRow, words: string): boolean {
  const text = `${row.title ?? ""} ${row.cwd} ${row.id}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function lastOf(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}
