// Characters that cannot be seen but change what is read: bidirectional controls, zero-width characters, tags.
// They are shown by their code point, and text is isolated so that it cannot reorder what stands around it.

import type { ComponentChildren } from "preact";

/** An emoji with the joiners that belong to it, or something without a shape of its own. Line breaks and tabs are layout. */
const INVISIBLE = /((?:\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?\u200d?)*\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?|[0-9#*]\ufe0f\u20e3)|(?!\r\n|[\n\t])[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** What ordinary writing needs: joiners and marks of scripts, soft hyphens, variants of a sign. */
const IN_PROSE = /^[\u200c-\u200f\u061c\u00ad\ufe00-\ufe0f]$/;

interface Part {
  text: string;
  isMark: boolean;
}

/** The text in parts: as it stands, and the marks for what cannot be seen. */
export function reveal(text: string, isProse = false): Part[] {
  const parts: Part[] = [];
  let start = 0;
  for (const { 0: found, 1: emoji, index } of text.matchAll(INVISIBLE)) {
    if (emoji !== undefined || (isProse && IN_PROSE.test(found))) continue;
    if (index > start) parts.push({ text: text.slice(start, index), isMark: false });
    parts.push({ text: codePoint(found), isMark: true });
    start = index + found.length;
  }
  if (start < text.length || parts.length === 0) parts.push({ text: text.slice(start), isMark: false });
  return parts;
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The same as plain text, for titles and labels that have no elements. */
export function spelled(text: string): string {
  return reveal(text).map((part) => (part.isMark ? `[${part.text}]` : part.text)).join("");
}

function marked(text: string, isProse = false): ComponentChildren {
  const parts = reveal(text, isProse);
  if (parts.length === 1 && parts[0]?.isMark === false) return text;
  return parts.map((part) => (part.isMark ? <span class="invisible" title="A character that cannot be seen">{part.text}</span> : part.text));
}

/** Words for a person, in their own direction. */
export function Words({ text }: { text: string }) {
  return <bdi dir="auto">{marked(text)}</bdi>;
}

/** Code, a command or a path: always left to right. */
export function Code({ text }: { text: string }) {
  return <bdi dir="ltr">{marked(text)}</bdi>;
}

/** What somebody wrote or a model said: only what ordinary writing does not need is marked. */
export function prose(text: string): ComponentChildren {
  return marked(text, true);
}
