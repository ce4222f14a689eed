// The lines that changed between two texts.

export interface DiffLine {
  kind: " " | "+" | "-" | "…";
  text: string;
  old?: number;
  new?: number;
}

/** Lines of each side that are compared one by one; longer changes are shown as removed and added whole. */
const COMPARED_MAX = 1_500;
/** Lines shown around a change. */
const AROUND = 3;

export function diffLines(before: string, after: string): DiffLine[] {
  const [old, fresh] = [lines(before), lines(after)];
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < fresh.length - head && old.at(-1 - tail) === fresh.at(-1 - tail)) tail++;
  const middle = compare(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail), head);
  const out: DiffLine[] = [];
  for (let at = 0; at < head; at++) out.push({ kind: " ", text: old[at] ?? "", old: at + 1, new: at + 1 });
  out.push(...middle);
  for (let at = tail; at > 0; at--) {
    out.push({ kind: " ", text: old[old.length - at] ?? "", old: old.length - at + 1, new: fresh.length - at + 1 });
  }
  return folded(out);
}

function lines(text: string): string[] {
  const all = text.split("\n");
  if (all.at(-1) === "") all.pop();
  return all;
}

function compare(old: string[], fresh: string[], head: number): DiffLine[] {
  const removed = (at: number): DiffLine => ({ kind: "-", text: old[at] ?? "", old: head + at + 1 });
  const added = (at: number): DiffLine => ({ kind: "+", text: fresh[at] ?? "", new: head + at + 1 });
  if (old.length > COMPARED_MAX || fresh.length > COMPARED_MAX) {
    return [...old.map((_, at) => removed(at)), ...fresh.map((_, at) => added(at))];
  }
  const width = fresh.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  for (let a = old.length - 1; a >= 0; a--) {
    for (let b = fresh.length - 1; b >= 0; b--) {
      common[a * width + b] = old[a] === fresh[b]
        ? (common[(a + 1) * width + b + 1] ?? 0) + 1
        : Math.max(common[(a + 1) * width + b] ?? 0, common[a * width + b + 1] ?? 0);
    }
  }
  const out: DiffLine[] = [];
  let [a, b] = [0, 0];
  while (a < old.length || b < fresh.length) {
    if (a < old.length && b < fresh.length && old[a] === fresh[b]) {
      out.push({ kind: " ", text: old[a] ?? "", old: head + a + 1, new: head + b + 1 });
      a++;
      b++;
    } else if (a < old.length && (b >= fresh.length || (common[(a + 1) * width + b] ?? 0) >= (common[a * width + b + 1] ?? 0))) {
      out.push(removed(a++));
    } else {
      out.push(added(b++));
    }
  }
  return out;
}

/** Leaves out what is far from any change. */
function folded(all: DiffLine[]): DiffLine[] {
  const near = new Set<number>();
  all.forEach((line, at) => {
    if (line.kind === " ") return;
    for (let around = at - AROUND; around <= at + AROUND; around++) near.add(around);
  });
  const out: DiffLine[] = [];
  let hidden = 0;
  const flush = () => {
    if (hidden > 0) out.push({ kind: "…", text: `${hidden} unchanged ${hidden === 1 ? "line" : "lines"}` });
    hidden = 0;
  };
  all.forEach((line, at) => {
    if (!near.has(at)) {
      hidden++;
      return;
    }
    flush();
    out.push(line);
  });
  flush();
  return out;
}
