// Code and output: scrolls sideways by itself, can be copied, and is cut when it is very long.

import { useState } from "preact/hooks";
import { Code, spelled } from "./invisible";

/** Lines shown at first; nobody reads more at a glance, and browsers lay them all out. */
const LINES_SHOWN = 400;

export function CodeBlock({ text, lang, label }: { text: string; lang?: string; label?: string }) {
  const [isWhole, setWhole] = useState(false);
  const cut = isWhole ? null : cutLines(text);
  const name = label ?? (lang ? `Code, ${lang}` : "Code");
  return (
    <figure class="code">
      <figcaption>
        <span><Code text={lang || label || ""} /></span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={spelled(name)}><code><Code text={cut ? cut.shown : text} /></code></pre>
      {cut ? <button class="quiet more" onClick={() => setWhole(true)}>Show all {cut.lines.toLocaleString()} lines</button> : null}
    </figure>
  );
}

export function CopyButton({ text }: { text: string }) {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return <button class="quiet copy" onClick={copy} aria-live="polite">{isDone ? "Copied" : "Copy"}</button>;
}

function cutLines(text: string): { shown: string; lines: number } | null {
  let at = -1;
  for (let line = 0; line < LINES_SHOWN; line++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return null;
  }
  return { shown: text.slice(0, at), lines: text.split("\n").length };
}
