// Markdown as a model writes it, read into a tree. What is not understood stays text; there is no HTML.
// Text that is still being streamed is read again only from its last finished part on.

export type Inline =
  | { t: "text"; text: string }
  | { t: "code"; text: string }
  | { t: "strong" | "em" | "del"; kids: Inline[] }
  | { t: "link"; url: string; kids: Inline[] }
  | { t: "image"; url: string; alt: string }
  | { t: "break" };

export type Block =
  | { t: "paragraph"; kids: Inline[] }
  | { t: "heading"; level: number; kids: Inline[] }
  | { t: "code"; lang: string; text: string }
  | { t: "quote"; kids: Block[] }
  | { t: "list"; start: number | null; items: ListItem[] }
  | { t: "table"; align: ("left" | "right" | "center" | "none")[]; head: Inline[][]; rows: Inline[][][] }
  | { t: "rule" };

export interface ListItem {
  checked: boolean | null;
  kids: Block[];
}

/** How deep things may lie in each other; beyond it they are text. */
const DEPTH_MAX = 12;
/** How far the end of a span is looked for: a hostile text must not be read over and over. */
const SPAN_MAX = 2_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s|$)/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const BULLET = /^( {0,3})([-*+])(\s+|$)/;
const NUMBER = /^( {0,3})(\d{1,9})([.)])(\s+|$)/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Reads a whole text. */
export function parse(text: string, depth = 0): Block[] {
  const lines = text.split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at++;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function readBlock(lines: string[], at: number, depth: number): [Block, number] {
  const line = lines[at] ?? "";
  const fence = FENCE.exec(line);
  if (fence) return readCode(lines, at, fence[1] ?? "```", fence[2] ?? "");
  const heading = HEADING.exec(line);
  if (heading) return [{ t: "heading", level: heading[1]?.length ?? 1, kids: inline(headingText(line.slice(heading[0].length))) }, at + 1];
  if (RULE.test(line)) return [{ t: "rule" }, at + 1];
  if (depth < DEPTH_MAX) {
    if (/^ {0,3}>/.test(line)) return readQuote(lines, at, depth);
    if (BULLET.test(line) || NUMBER.test(line)) return readList(lines, at, depth);
  }
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && (lines[at + 1] ?? "").includes("|")) {
    return readTable(lines, at);
  }
  return readParagraph(lines, at, depth);
}

function headingText(rest: string): string {
  const text = rest.trim();
  let end = text.length;
  while (text[end - 1] === "#") end--;
  return end === 0 || text[end - 1] === " " ? text.slice(0, end).trimEnd() : text;
}

function readCode(lines: string[], at: number, mark: string, lang: string): [Block, number] {
  const close = new RegExp(`^ {0,3}${mark[0] === "~" ? "~" : "`"}{${mark.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end] ?? "")) end++;
  return [{ t: "code", lang, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function readQuote(lines: string[], at: number, depth: number): [Block, number] {
  const inner: string[] = [];
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end] ?? "")) {
    inner.push((lines[end] ?? "").replace(/^ {0,3}> ?/, ""));
    end++;
  }
  return [{ t: "quote", kids: parse(inner.join("\n"), depth + 1) }, end];
}

function readList(lines: string[], at: number, depth: number): [Block, number] {
  const first = lines[at] ?? "";
  const isNumbered = NUMBER.test(first);
  const start = isNumbered ? Number(NUMBER.exec(first)?.[2] ?? 1) : null;
  const items: ListItem[] = [];
  let end = at;
  while (end < lines.length) {
    const match = (isNumbered ? NUMBER : BULLET).exec(lines[end] ?? "");
    if (!match || RULE.test(lines[end] ?? "")) break;
    const [item, next] = readItem(lines, end, match[0].length, depth);
    items.push(item);
    end = next;
    let beyond = end;
    while (beyond < lines.length && (lines[beyond] ?? "").trim() === "") beyond++;
    if ((isNumbered ? NUMBER : BULLET).test(lines[beyond] ?? "")) end = beyond;
  }
  return [{ t: "list", start, items }, end];
}

function readItem(lines: string[], at: number, marker: number, depth: number): [ListItem, number] {
  const indent = Math.min(marker, 6);
  let text = (lines[at] ?? "").slice(marker);
  const box = /^\[([ xX])\]\s+/.exec(text);
  if (box) text = text.slice(box[0].length);
  const inner = [text];
  let end = at + 1;
  let isAfterBlank = false;
  for (; end < lines.length; end++) {
    const line = lines[end] ?? "";
    const isBlank = line.trim() === "";
    const own = line.length - line.trimStart().length;
    if (!isBlank && own < Math.min(indent, 2)) {
      // A line without indentation goes on with the paragraph, unless something else begins.
      if (isAfterBlank || startsBlock(line) || text === "") break;
    }
    inner.push(line.slice(Math.min(own, indent)));
    isAfterBlank = isBlank;
  }
  while (inner.length > 1 && (inner.at(-1) ?? "").trim() === "") inner.pop();
  const last = at + inner.length;
  return [{ checked: box ? box[1] !== " " : null, kids: parse(inner.join("\n"), depth + 1) }, last];
}

function startsBlock(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || BULLET.test(line) || NUMBER.test(line);
}

function readTable(lines: string[], at: number): [Block, number] {
  const align = cells(lines[at + 1] ?? "").map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : "none";
  });
  const rows: Inline[][][] = [];
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").trim() !== "" && (lines[end] ?? "").includes("|")) {
    rows.push(cells(lines[end] ?? "").slice(0, align.length).map(inline));
    end++;
  }
  return [{ t: "table", align, head: cells(lines[at] ?? "").map(inline), rows }, end];
}

function cells(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function readParagraph(lines: string[], at: number, depth: number): [Block, number] {
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end] ?? "";
    if (line.trim() === "" || (depth < DEPTH_MAX && interrupts(line))) break;
    end++;
  }
  return [{ t: "paragraph", kids: inline(lines.slice(at, end).join("\n")) }, end];
}

function interrupts(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line)
    || /^ {0,3}[-*+]\s+\S/.test(line) || /^ {0,3}1[.)]\s+\S/.test(line);
}

const URL_IN_TEXT = /^https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_]/;

/** Only these lead anywhere; everything else is shown as text. */
export function safeUrl(url: string): string | null {
  return /^https?:\/\/[^\s]+$/i.test(url) ? url : null;
}

/** Reads the inside of a paragraph, heading or cell. */
export function inline(text: string, depth = 0): Inline[] {
  const out: Inline[] = [];
  let plain = "";
  let at = 0;
  const push = (node: Inline, length: number) => {
    if (plain) out.push({ t: "text", text: plain });
    plain = "";
    out.push(node);
    at += length;
  };
  while (at < text.length) {
    const char = text[at] ?? "";
    const found = depth < DEPTH_MAX ? special(text, at, char, depth) : null;
    if (found) push(found[0], found[1]);
    else if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else {
      // Nothing of ours begins with a letter or digit, except addresses: those runs are taken whole.
      const run = /^[^\\`*_~[\]!h\n ]+/.exec(text.slice(at, at + 256))?.[0].length ?? 1;
      plain += text.slice(at, at + run);
      at += run;
    }
  }
  if (plain) out.push({ t: "text", text: plain });
  return out;
}

function special(text: string, at: number, char: string, depth: number): [Inline, number] | null {
  switch (char) {
    case "`": return codeSpan(text, at);
    case "*":
    case "_":
    case "~": return emphasis(text, at, char, depth);
    case "!": return text[at + 1] === "[" ? image(text, at) : null;
    case "[": return link(text, at, depth);
    case "h": return address(text, at);
    case " ": return /^ {2,}\n/.test(text.slice(at, at + 16)) ? [{ t: "break" }, text.indexOf("\n", at) - at + 1] : null;
    default: return null;
  }
}

function codeSpan(text: string, at: number): [Inline, number] | null {
  const ticks = /^`+/.exec(text.slice(at, at + 64))?.[0] ?? "`";
  const reach = text.slice(at, at + SPAN_MAX);
  let end = reach.indexOf(ticks, ticks.length);
  while (end >= 0 && (reach[end + ticks.length] === "`" || reach[end - 1] === "`")) end = reach.indexOf(ticks, end + 1);
  if (end < 0) return null;
  let inner = reach.slice(ticks.length, end).replace(/\n/g, " ");
  if (/^ .*\S.* $/.test(inner)) inner = inner.slice(1, -1);
  return [{ t: "code", text: inner }, end + ticks.length];
}

function emphasis(text: string, at: number, char: string, depth: number): [Inline, number] | null {
  const isDouble = text[at + 1] === char;
  if (char === "~" && !isDouble) return null;
  const mark = isDouble ? char + char : char;
  const inside = at + mark.length;
  if (/^\s?$/.test(text[inside] ?? "")) return null;
  // Underscores inside words belong to names, not to us.
  if (char === "_" && /\w/.test(text[at - 1] ?? "")) return null;
  const end = closing(text, inside, mark);
  if (end < 0) return null;
  const kids = inline(text.slice(inside, end), depth + 1);
  const t = char === "~" ? "del" : isDouble ? "strong" : "em";
  return [{ t, kids }, end + mark.length - at];
}

/** Where `mark` closes, skipping code and longer runs of it. */
function closing(text: string, from: number, mark: string): number {
  const char = mark[0] ?? "*";
  for (let at = from; at < text.length && at < from + SPAN_MAX; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "`") {
      const span = codeSpan(text, at);
      if (span) at += span[1] - 1;
    } else if (text[at] === char) {
      let run = 1;
      while (text[at + run] === char) run++;
      const canClose = !/\s/.test(text[at - 1] ?? " ") && !(char === "_" && /\w/.test(text[at + run] ?? ""));
      if (canClose && (run === mark.length || run >= 3)) return at + (run - mark.length);
      at += run - 1;
    }
  }
  return -1;
}

/** `[label](address "title")`: its label's end, the address, and the length of all. */
function bracketed(text: string, at: number): { label: string; url: string; length: number } | null {
  let level = 0;
  let end = at;
  for (; end < text.length && end < at + SPAN_MAX; end++) {
    if (text[end] === "\\") end++;
    else if (text[end] === "[") level++;
    else if (text[end] === "]" && --level === 0) break;
  }
  if (text[end] !== "]" || text[end + 1] !== "(") return null;
  const target = /^\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(end + 1, end + 4096));
  if (!target) return null;
  return { label: text.slice(at + 1, end), url: target[1] ?? "", length: end + 1 + target[0].length - at };
}

function link(text: string, at: number, depth: number): [Inline, number] | null {
  const found = bracketed(text, at);
  if (!found) return null;
  const kids = inline(found.label, depth + 1);
  const url = safeUrl(found.url);
  if (url) return [{ t: "link", url, kids }, found.length];
  // The label alone, and where it would have led: nothing to click.
  return [{ t: "em", kids: [...kids, { t: "text", text: found.url ? ` (${found.url})` : "" }] }, found.length];
}

function image(text: string, at: number): [Inline, number] | null {
  const found = bracketed(text, at + 1);
  return found ? [{ t: "image", url: found.url, alt: found.label }, found.length + 1] : null;
}

function address(text: string, at: number): [Inline, number] | null {
  if (!text.startsWith("http", at) || /\w/.test(text[at - 1] ?? "")) return null;
  const found = URL_IN_TEXT.exec(text.slice(at, at + 2048))?.[0];
  return found ? [{ t: "link", url: found, kids: [{ t: "text", text: found }] }, found.length] : null;
}

/** A part of a text that can be read by itself. */
export interface Part {
  text: string;
  blocks: Block[];
}

/** A text that grows. What is finished is read once, however long the text becomes. */
export class Growing {
  parts: Part[] = [];
  private length = 0;
  private read = "";

  /** Takes the text as it is now. */
  show(text: string): Part[] {
    if (text.length === this.length && text === this.read) return this.parts;
    if (!text.startsWith(this.read)) this.parts = [];
    // What follows decides where a part ends, so the last two are looked at again.
    const kept = this.parts.slice(0, -2);
    const from = kept.reduce((sum, part) => sum + part.text.length, 0);
    const old = new Map(this.parts.slice(-2).map((part) => [part.text, part]));
    const fresh = split(text.slice(from)).map((part) => old.get(part) ?? { text: part, blocks: parse(part) });
    this.parts = [...kept, ...fresh];
    this.length = text.length;
    this.read = text;
    return this.parts;
  }
}

/** Cuts a text where something new begins after an empty line. The parts together are the text. */
export function split(text: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let at = 0;
  let fence: string | null = null;
  let isAfterBlank = false;
  let isList = false;
  while (at < text.length) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, end < 0 ? text.length : end);
    const isBlank = line.trim() === "";
    if (fence === null && isAfterBlank && !isBlank && !(isList && (/^\s/.test(line) || BULLET.test(line) || NUMBER.test(line)))) {
      parts.push(text.slice(start, at));
      start = at;
    }
    if (at === start) isList = BULLET.test(line) || NUMBER.test(line);
    fence = fenceAfter(line, fence, isList);
    isAfterBlank = isBlank && fence === null;
    at = next;
  }
  if (start < text.length) parts.push(text.slice(start));
  return parts;
}

function fenceAfter(line: string, fence: string | null, isList: boolean): string | null {
  const shown = isList ? line.trimStart() : line;
  if (fence !== null) {
    const mark = /^\s{0,3}(`{3,}|~{3,})\s*$/.exec(shown)?.[1];
    return mark && mark[0] === fence[0] && mark.length >= fence.length ? null : fence;
  }
  return FENCE.exec(shown)?.[1] ?? null;
}
