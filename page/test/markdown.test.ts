// What a model writes is read the same however it is cut, leads nowhere it should not, and never takes long.

import assert from "node:assert/strict";
import test from "node:test";
import { type Block, Growing, type Inline, inline, parse, split } from "../src/markdown";

const text = (nodes: Inline[]): string =>
  nodes.map((node) => {
    switch (node.t) {
      case "text": return node.text;
      case "code": return `‹${node.text}›`;
      case "break": return "⏎";
      case "image": return `image(${node.alt})`;
      case "link": return `link(${node.url}|${text(node.kids)})`;
      case "strong": case "em": case "del": return `${node.t}(${text(node.kids)})`;
    }
  }).join("");

const outline = (blocks: Block[]): string[] =>
  blocks.flatMap((block): string[] => {
    switch (block.t) {
      case "paragraph": return [`p ${text(block.kids)}`];
      case "heading": return [`h${block.level} ${text(block.kids)}`];
      case "code": return [`code ${block.lang}: ${block.text.replaceAll("\n", "⏎")}`];
      case "quote": return outline(block.kids).map((line) => `> ${line}`);
      case "list": return block.items.flatMap((item, index) => outline(item.kids).map((line, at) => `${at === 0 ? (block.start === null ? "-" : `${block.start + index}.`) : " "} ${item.checked === null || at > 0 ? "" : item.checked ? "[x] " : "[ ] "}${line}`));
      case "table": return [`table ${block.head.map(text).join(" | ")}`, ...block.rows.map((row) => `  ${row.map(text).join(" | ")}`)];
      case "rule": return ["---"];
    }
  });

const SAMPLE = `# Title #

A paragraph with **bold**, *em*, \`code * x\`, ~~gone~~ and snake_case_name.
Second line, https://example.com/a_b.

- one
- two
  - nested *item*

  more of two
- [x] done

3. three
4. four

> quoted
> text

| a | b |
|---|--:|
| 1 | \`x\` |

\`\`\`rust
fn main() {

}
\`\`\`

---
The end with ![pic](https://evil.example/x.png) and [label](javascript:alert(1)).
`;

test("blocks and inlines are read", () => {
  assert.deepEqual(outline(parse(SAMPLE)), [
    "h1 Title",
    "p A paragraph with strong(bold), em(em), ‹code * x›, del(gone) and snake_case_name.\nSecond line, link(https://example.com/a_b|https://example.com/a_b).",
    "- p one",
    "- p two",
    "  - p nested em(item)",
    "  p more of two",
    "- [x] p done",
    "3. p three",
    "4. p four",
    "> p quoted\ntext",
    "table a | b",
    "  1 | ‹x›",
    "code rust: fn main() {⏎⏎}",
    "---",
    "p The end with image(pic) and em(label (javascript:alert(1))).",
  ]);
});

test("text that grows letter by letter is read as the whole", () => {
  const growing = new Growing();
  for (let end = 1; end <= SAMPLE.length; end++) {
    const parts = growing.show(SAMPLE.slice(0, end));
    const whole = SAMPLE.slice(0, end);
    assert.equal(parts.map((part) => part.text).join(""), whole);
    assert.deepEqual(parts.map((part) => part.text), split(whole), `after ${end}`);
  }
  assert.deepEqual(outline(growing.parts.flatMap((part) => part.blocks)), outline(parse(SAMPLE)));
});

test("what is finished is not read again", () => {
  const growing = new Growing();
  const first = growing.show("one\n\ntwo\n\nthree\n\nfour")[0];
  assert.equal(growing.show("one\n\ntwo\n\nthree\n\nfour and more")[0], first);
});

test("only http and https lead anywhere", () => {
  for (const url of ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//evil.example", " javascript:alert(1)", "JaVaScRiPt:alert(1)"]) {
    const found = inline(`[x](${url})`);
    assert.ok(!JSON.stringify(found).includes('"link"'), url);
  }
  assert.deepEqual(inline("[x](HTTPS://ok.example)")[0]?.t, "link");
});

test("HTML is text", () => {
  const hostile = '<img src=x onerror="alert(1)"><script>alert(1)</script>';
  assert.deepEqual(parse(hostile), [{ t: "paragraph", kids: [{ t: "text", text: hostile }] }]);
});

test("hostile text is read in reasonable time", () => {
  // Time on a processor: what else the machine does must not matter.
  const started = process.cpuUsage();
  for (const piece of ["*a ", "[", "`", "**_", "> ", "- ", "![", "# ", "|", "~~", "```\n", "  ", "\\", "http://"]) {
    const whole = piece.repeat(20_000);
    parse(whole);
    split(whole);
  }
  const took = process.cpuUsage(started).user / 1_000;
  assert.ok(took < 8_000, `${took} ms`);
});
