// Time travel: the session as it was at any event of its journal.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Api } from "./api";
import { isTyping } from "./guard";
import { asOf, describe, forkEnd } from "./history";
import { Code, spelled } from "./invisible";
import { Transcript } from "./transcript";
import type { JournalEvent } from "./wire";

/** Events that are read for one look; beyond it only the first part can be visited. */
const EVENTS_MAX = 100_000;

/** What each kind of event looks like on the strip, by the first match. */
const KINDS: [RegExp, string][] = [
  [/^user\./, "user"], [/^assistant\.message/, "agent"], [/^assistant\.thought/, "thought"], [/^tool\./, "tool"],
  [/^(permission|question)\./, "ask"], [/^(result|turn\.)/, "turn"],
];

const INSIDE = "This moment is inside a turn; a copy ends before it";

interface Props {
  api: Api;
  id: string;
  head: number;
  onFork: ((at: number) => void) | null;
}

export function TimelineView({ api, id, head, onFork }: Props) {
  const [events, setEvents] = useState<JournalEvent[]>([]);
  const [at, setAt] = useState<number | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const last = events.at(-1)?.seq ?? 0;

  useEffect(() => {
    let isWanted = true;
    const read = async () => {
      let after = last;
      while (isWanted && after < head && after < EVENTS_MAX) {
        const page = await api.events(id, after);
        if (!isWanted || page.events.length === 0) return;
        after = page.events.at(-1)?.seq ?? head;
        setEvents((known) => [...known, ...page.events.filter((event) => event.seq > (known.at(-1)?.seq ?? 0))]);
      }
    };
    read().catch((error: Error) => setFailure(error.message));
    return () => {
      isWanted = false;
    };
  }, [api, id, head]);

  const shown = Math.min(at ?? last, last);
  const past = useMemo(() => asOf(events, shown), [events, shown]);
  const event = events[shown - 1];
  const end = useMemo(() => forkEnd(events, shown), [events, shown]);

  useEffect(() => {
    const pressed = (pressedKey: KeyboardEvent) => {
      if (isTyping(pressedKey.target) || pressedKey.target instanceof HTMLInputElement) return;
      const step = pressedKey.key === "ArrowLeft" ? -1 : pressedKey.key === "ArrowRight" ? 1 : 0;
      if (step === 0) return;
      pressedKey.preventDefault();
      setAt(Math.max(1, Math.min(last, shown + step)));
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [shown, last]);

  return (
    <div class="timeline">
      <div class="scrub">
        <Strip events={events} at={shown} />
        <input
          type="range" min={1} max={Math.max(1, last)} value={shown} aria-label="Event" aria-valuetext={event ? `${shown}: ${spelled(describe(event))}` : String(shown)}
          onInput={(input) => setAt(Number(input.currentTarget.value))}
        />
        <div class="scrub-line">
          <span class="where" data-at={shown}><strong>{shown}</strong> / {last}</span>
          <span class="what">{event ? <Code text={describe(event)} /> : "Reading the journal…"}</span>
          {event ? <time dateTime={new Date(event.ts * 1000).toISOString()}>{new Date(event.ts * 1000).toLocaleTimeString()}</time> : null}
          {onFork ? (
            <button onClick={() => { if (end !== null) onFork(end); }} disabled={!event || end === null} title={end === shown ? "A copy of the session as it was here" : INSIDE}>
              {end === null || end === shown ? "Fork here" : `Fork at ${end}`}
            </button>
          ) : null}
        </div>
        {onFork && event && end !== shown ? <p class="meta" role="note">{INSIDE}{end === null ? "." : <>: <button class="quiet" onClick={() => setAt(end)}>show event {end}</button></>}</p> : null}
      </div>
      {failure ? <p class="banner" role="alert">{failure}</p> : null}
      <Transcript items={past.items} base={0} pending={[]} isWorking={false} actions={null} />
    </div>
  );
}

/** The whole journal at a glance: one mark for each event, merged where there are more than fit. */
function Strip({ events, at }: { events: JournalEvent[]; at: number }) {
  const slots = Math.min(events.length, 240);
  const marks = useMemo(() => Array.from({ length: slots }, (_, slot) => {
    const part = events.slice(Math.floor((slot * events.length) / slots), Math.floor(((slot + 1) * events.length) / slots));
    const kinds = part.map((event) => KINDS.find(([pattern]) => pattern.test(event.type))?.[1] ?? "other");
    return KINDS.map(([, name]) => name).find((name) => kinds.includes(name)) ?? "other";
  }), [events]);
  const place = events.length === 0 ? 0 : ((at - 0.5) / events.length) * slots;
  return (
    <svg class="strip" viewBox={`0 0 ${Math.max(1, slots)} 10`} preserveAspectRatio="none" aria-hidden="true">
      {marks.map((kind, slot) => <rect x={slot + 0.1} y={kind === "user" ? 0 : kind === "turn" || kind === "other" ? 6 : 3} width={0.8} height={kind === "user" ? 10 : kind === "turn" || kind === "other" ? 4 : 7} class={`k-${kind}`} />)}
      <rect x={place - 0.15} y={0} width={Math.max(0.3, slots / 400)} height={10} class="k-here" />
    </svg>
  );
}
