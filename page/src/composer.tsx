// Where prompts are written: grows with the text, completes `@file` and `/command`, sends with Enter.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Api } from "./api";
import { isIme } from "./guard";
import { Icon } from "./icons";
import { Code } from "./invisible";
import type { SessionLink } from "./link";
import type { ContentBlock } from "./wire";

interface Suggestion {
  insert: string;
  label: string;
  detail?: string;
}

/** What is being completed: the sign, the word after it, and where it begins. */
export interface Mention {
  sign: "@" | "/";
  word: string;
  at: number;
}

/** Reads back from the caret: `@word` after a space or at the start, `/word` only at the start. */
export function mentionAt(text: string, caret: number): Mention | null {
  const before = text.slice(Math.max(0, caret - 200), caret);
  const file = /(?:^|\s)@([^\s@]*)$/.exec(before);
  if (file) return { sign: "@", word: file[1] ?? "", at: caret - (file[1] ?? "").length - 1 };
  const command = /^\/(\S*)$/.exec(text.slice(0, caret));
  return command ? { sign: "/", word: command[1] ?? "", at: 0 } : null;
}

/** Files that a prompt names, as links for the agent. */
export function fileLinks(text: string, cwd: string, known: Set<string>): ContentBlock[] {
  const named = new Set([...text.matchAll(/(?:^|\s)@(\S+)/g)].map((match) => match[1] ?? ""));
  return [...named].filter((path) => known.has(path)).map((path) => {
    const whole = path.startsWith("/") ? path : `${cwd.replace(/\/$/, "")}/${path}`;
    return { type: "resource_link", name: path, uri: `file://${whole.split("/").map(encodeURIComponent).join("/")}` };
  });
}

interface Props {
  api: Api;
  link: SessionLink;
  draft: string;
  onDraft: (draft: string) => void;
}

export function Composer({ api, link, draft, onDraft }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const known = useRef(new Set<string>());
  const [mention, setMention] = useState<Mention | null>(null);
  const [suggestions, setSuggestions] = useState<Suggestion[]>([]);
  const [chosen, setChosen] = useState(0);
  const isWorking = link.conversation.turn.state !== "idle";
  const queued = link.conversation.queued;
  const stop = queued === 0 ? "Cancel the turn" : `Cancel the turn and ${queued === 1 ? "the queued prompt" : `${queued} queued prompts`}`;

  useEffect(() => {
    const field = area.current;
    if (!field) return;
    field.style.height = "auto";
    // A placeholder that wraps is no text that needs room.
    if (draft !== "") field.style.height = `${Math.min(field.scrollHeight + 2, window.innerHeight * 0.4)}px`;
  }, [draft]);

  const wanted = mention ? mention.sign + mention.word : null;
  useEffect(() => {
    setChosen(0);
    if (!mention) return setSuggestions([]);
    let isWanted = true;
    const timer = setTimeout(() => {
      void suggest(api, link, mention).then((found) => {
        if (isWanted) setSuggestions(found);
      });
    }, mention.sign === "@" ? 80 : 0);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [wanted]);

  const look = () => {
    const field = area.current;
    setMention(field ? mentionAt(field.value, field.selectionStart) : null);
  };
  const take = (suggestion: Suggestion) => {
    const field = area.current;
    if (!mention || !field) return;
    const end = mention.at + 1 + mention.word.length;
    const before = `${draft.slice(0, mention.at)}${suggestion.insert} `;
    if (mention.sign === "@") known.current.add(suggestion.insert.slice(1));
    onDraft(before + draft.slice(end).replace(/^ /, ""));
    setMention(null);
    queueMicrotask(() => field.setSelectionRange(before.length, before.length));
  };
  const send = () => {
    // What was typed last may not be drawn yet, so the field knows more than `draft`.
    const field = area.current;
    const text = (field?.value ?? draft).trim();
    if (text === "") return;
    link.prompt(text, fileLinks(text, link.cwd, known.current));
    if (field) field.value = "";
    onDraft("");
    setMention(null);
  };
  const pressed = (event: KeyboardEvent) => {
    if (isIme(event)) return;
    if (mention && suggestions.length > 0 && completes(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.repeat) {
      event.preventDefault();
      send();
    }
  };
  const completes = (event: KeyboardEvent): boolean => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const suggestion = suggestions[chosen];
    if (step !== 0) setChosen((chosen + step + suggestions.length) % suggestions.length);
    else if ((event.key === "Enter" || event.key === "Tab") && suggestion) take(suggestion);
    else if (event.key === "Escape") setMention(null);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  const isOpen = mention !== null && suggestions.length > 0;
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      {isOpen ? (
        <ul class="suggestions" role="listbox" id="suggestions" aria-label={mention.sign === "@" ? "Files" : "Commands"}>
          {suggestions.map((suggestion, index) => (
            <li role="option" id={`suggestion-${index}`} aria-selected={index === chosen} onMouseDown={(event) => { event.preventDefault(); take(suggestion); }}>
              <span><Code text={suggestion.label} /></span>{suggestion.detail ? <span class="meta">{suggestion.detail}</span> : null}
            </li>
          ))}
        </ul>
      ) : null}
      <textarea
        ref={area} id="prompt" rows={1} value={draft} dir="auto" placeholder={link.questions.length > 0 ? "Answer above, or queue a prompt here…" : isWorking ? "Queue a prompt…" : "Ask the agent… (@ for files, / for commands)"}
        aria-label="Prompt" aria-autocomplete="list" aria-controls={isOpen ? "suggestions" : undefined}
        aria-activedescendant={isOpen ? `suggestion-${chosen}` : undefined}
        onInput={(event) => { onDraft(event.currentTarget.value); look(); }} onKeyDown={pressed} onClick={look} onBlur={() => setMention(null)}
      />
      {isWorking ? <button type="button" class="round danger" onClick={() => link.cancel()} aria-label={stop} title={`${stop} (Esc)`}><Icon name="stop" /></button> : null}
      <button type="submit" class="round primary" disabled={draft.trim() === ""} aria-label="Send (Enter)" title="Send (Enter)"><Icon name="send" /></button>
    </form>
  );
}

async function suggest(api: Api, link: SessionLink, mention: Mention): Promise<Suggestion[]> {
  if (mention.sign === "/") {
    const named = link.conversation.commands.filter((command) => command.name.startsWith(mention.word));
    return named.slice(0, 20).map((command) => ({ insert: `/${command.name}`, label: `/${command.name}`, detail: command.description }));
  }
  try {
    const { files } = await api.files(link.id, mention.word);
    return files.map(({ path }) => ({ insert: `@${path}`, label: path }));
  } catch {
    return [];
  }
}
