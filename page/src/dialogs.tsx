// What opens above the page: help, sharing, starting a session.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Api, Share } from "./api";
import { CopyButton } from "./code-block";
import { isIme } from "./guard";
import { Icon } from "./icons";

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={onClose} onKeyDown={composed} onClick={(event) => { if (event.target === dialog.current) onClose(); }}>
      <header><h2>{title}</h2><button class="quiet" onClick={onClose} aria-label="Close"><Icon name="close" /></button></header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** Enter and Esc of an input method neither send nor close. */
function composed(event: KeyboardEvent) {
  if (isIme(event) && (event.key === "Enter" || event.key === "Escape")) event.preventDefault();
}

const KEYS: [string, string][] = [
  ["j / k", "next, previous session in the list; Enter opens it"],
  ["c", "new session"],
  ["/ or i", "write a prompt"],
  ["Enter, Ctrl+Enter", "send (Shift+Enter: new line)"],
  ["Esc", "leave a field or the question; in the empty prompt or the conversation, cancel the turn"],
  ["y / n / a, arrows", "choose an answer to a permission request; Enter confirms it"],
  ["t", "timeline: see the session as it was"],
  ["f", "filter the list"],
  ["g", "the server"],
  ["d", "light, dark, as the system"],
  ["?", "this help"],
];

export function HelpDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">{KEYS.map(([keys, words]) => <div><dt><kbd>{keys}</kbd></dt><dd>{words}</dd></div>)}</dl>
    </Dialog>
  );
}

const EXPIRIES: [number, string][] = [[3600, "1 hour"], [86_400, "1 day"], [7 * 86_400, "7 days"], [30 * 86_400, "30 days"]];

export function ShareDialog({ api, id, onClose }: { api: Api; id: string; onClose: () => void }) {
  const [seconds, setSeconds] = useState(86_400);
  const [made, setMade] = useState<{ url: string; expiresAt: string } | null>(null);
  const [shares, setShares] = useState<Share[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  const failed = (error: Error) => setFailure(error.message);
  const look = () => api.shares(id).then((answer) => setShares(answer.shares), failed);
  useEffect(() => void look(), []);
  const make = () => api.share(id, seconds).then((share) => {
    setMade(share);
    setFailure(null);
    return look();
  }, failed);
  const end = (share: Share) => api.unshare(id, share.id).then(look, failed);
  return (
    <Dialog title="Share this session" onClose={onClose}>
      <p>Whoever has the link sees this session live. They cannot write, answer or change anything, and see no other session.</p>
      <div class="line">
        <label>Ends after <select value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>{EXPIRIES.map(([value, name]) => <option value={value}>{name}</option>)}</select></label>
        <button class="primary" onClick={() => void make()}>Make a link</button>
      </div>
      {made ? (
        <div class="line made">
          <input id="share-url" readOnly value={made.url} aria-label="Share link" onFocus={(event) => event.currentTarget.select()} />
          <CopyButton text={made.url} />
        </div>
      ) : null}
      {made ? <p class="meta">It is shown only this once.</p> : null}
      {failure ? <p class="banner" role="alert">{failure}</p> : null}
      {shares.length > 0 ? (
        <>
          <h3>Links that work</h3>
          <ul class="shares">
            {shares.map((share) => (
              <li><span>made {new Date(share.createdAt).toLocaleString()}, until {new Date(share.expiresAt).toLocaleString()}</span><button class="quiet danger" onClick={() => void end(share)}>End it</button></li>
            ))}
          </ul>
        </>
      ) : null}
    </Dialog>
  );
}

export function NewSessionDialog({ cwd, onClose, onMake }: { cwd: string; onClose: () => void; onMake: (cwd: string) => void }) {
  const [place, setPlace] = useState(cwd);
  return (
    <Dialog title="New session" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); onMake(place.trim()); }}>
        <label class="field"><span>Directory it works in</span>
          <input id="new-cwd" value={place} onInput={(event) => setPlace(event.currentTarget.value)} placeholder="as the server was started" spellcheck={false} autofocus />
        </label>
        <div class="options"><button class="primary" type="submit">Start</button><button type="button" onClick={onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}
