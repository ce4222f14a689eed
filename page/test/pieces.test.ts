// The small rules: differences, the journal as it was, mentions, rows, waits.

import assert from "node:assert/strict";
import test from "node:test";
import { backoffMs } from "../src/backoff";
import { fileLinks, mentionAt } from "../src/composer";
import { diffLines } from "../src/diff";
import { Conversation } from "../src/conversation";
import { asOf, tell } from "../src/history";
import { keyOf } from "../src/question-view";
import { readRoute } from "../src/route";
import { merged } from "../src/sessions";
import type { JournalEvent, SessionRow } from "../src/wire";

const drawn = (before: string, after: string) => diffLines(before, after).map((line) => `${line.kind}${line.text}`);

test("a difference shows what changed and a little around it", () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  const changed = lines.with(10, "other");
  assert.deepEqual(drawn(lines.join("\n"), changed.join("\n")), [
    "…7 unchanged lines", " line 7", " line 8", " line 9", "-line 10", "+other", " line 11", " line 12", " line 13", "…6 unchanged lines",
  ]);
  assert.deepEqual(drawn("", "a\nb\n"), ["+a", "+b"]);
  assert.deepEqual(drawn("a\n", ""), ["-a"]);
  const long = Array.from({ length: 4_000 }, (_, at) => `x${at}`).join("\n");
  assert.equal(diffLines(long, long.replaceAll("x", "y")).length, 8_000);
});

const JOURNAL: JournalEvent[] = [
  { seq: 1, ts: 0, type: "session.created" },
  { seq: 2, ts: 0, type: "user.message", text: "hi", blocks: [{ type: "text", text: "hi" }] },
  { seq: 3, ts: 0, type: "turn.started", turn: 1 },
  { seq: 4, ts: 0, type: "message.started", messageId: "m", kind: "text" },
  { seq: 5, ts: 0, type: "assistant.message", messageId: "m", text: "hello" },
  { seq: 6, ts: 0, type: "tool.use", callId: "c", name: "bash", title: "ls", input: { command: "ls" } },
  { seq: 7, ts: 0, type: "tool.result", callId: "c", status: "denied", text: "no" },
  { seq: 8, ts: 0, type: "result", turn: 1, stopReason: "end_turn" },
  { seq: 9, ts: 0, type: "session.rewound", to: 1 },
];

test("the journal shows the session as it was at any event", () => {
  const at = (seq: number) => asOf(JOURNAL, seq).items.map((item) => (item.kind === "tool" ? `${item.kind} ${item.outcome ?? item.status}` : item.kind));
  assert.deepEqual(at(1), []);
  assert.deepEqual(at(4), ["user"]);
  assert.deepEqual(at(6), ["user", "agent", "tool pending"]);
  assert.deepEqual(at(8), ["user", "agent", "tool denied", "note"]);
  assert.deepEqual(at(9), []);
});

test("files are completed after @, commands only at the beginning", () => {
  assert.deepEqual(mentionAt("see @src/li", 11), { sign: "@", word: "src/li", at: 4 });
  assert.equal(mentionAt("mail a@b", 8), null);
  assert.deepEqual(mentionAt("/comp", 5), { sign: "/", word: "comp", at: 0 });
  assert.equal(mentionAt("say /comp", 9), null);
  const links = fileLinks("see @a b.txt and @src/ü.rs", "/project", new Set(["src/ü.rs"]));
  assert.deepEqual(links, [{ type: "resource_link", name: "src/ü.rs", uri: "file:///project/src/%C3%BC.rs" }]);
});

const row = (id: string, updatedAt: string): SessionRow => ({ id, updatedAt, createdAt: "", cwd: "/", title: id, model: "", head: 1, turn: { id: 0, state: "idle" } });

test("changed rows move up, removed ones go", () => {
  const rows = [row("a", "3"), row("b", "2"), row("c", "1")];
  assert.deepEqual(merged(rows, [row("c", "4"), row("d", "0")], ["a"]).map((one) => one.id), ["c", "b", "d"]);
});

test("waits double up to a bound and are spread", () => {
  assert.deepEqual([1, 2, 3, 20].map((attempt) => backoffMs(attempt, 1)), [500, 1000, 2000, 15_000]);
  assert.equal(backoffMs(1, 0), 250);
});

test("an answer to a permission is chosen by y, a and n, whatever else is offered", () => {
  const options = ["allow_once", "allow_always", "reject_once", "reject_always"].map((kind) => ({ optionId: kind, name: kind, kind }));
  assert.deepEqual(options.map((option, index) => keyOf(option, index, options)), ["y", "a", "n", "4"]);
});

test("addresses lead to what they name and nowhere else", () => {
  const id = "0".repeat(32);
  assert.deepEqual(readRoute(`#/s/${id}/timeline`), { kind: "session", id, isTimeline: true });
  assert.deepEqual(readRoute("#/s/../../x"), { kind: "unknown" });
  assert.deepEqual(readRoute(`#/s/${id}0`), { kind: "unknown" });
});

test("what came before is put before, and what was undone is not", () => {
  const said = (seq: number): JournalEvent[] => [
    { seq, ts: 0, type: "user.message", messageId: `u${seq}`, text: `ask ${seq}`, blocks: [] },
    { seq: seq + 1, ts: 0, type: "assistant.message", messageId: `m${seq}`, text: `answer ${seq}` },
  ];
  const early = [...said(2), ...said(4)];
  const late: JournalEvent[] = [...said(6), { seq: 8, ts: 0, type: "session.rewound", to: 3 }, ...said(9)];
  const conversation = new Conversation();
  for (const event of late) tell(conversation, event);
  conversation.standsAt(10, 0);
  const texts = () => conversation.items.map((item) => ("text" in item ? item.text : `ask ${item.seq}`));
  assert.deepEqual(texts(), ["ask 9", "answer 9"]);
  conversation.prepend(asOf([...early, ...late], Infinity).items.filter((item) => item.seq < 6));
  assert.deepEqual(texts(), ["ask 2", "answer 2", "ask 9", "answer 9"]);
  assert.equal(conversation.base, 2);
  // Undone before it was ever read: it is not put back.
  const other = new Conversation();
  for (const event of said(9)) tell(other, event);
  other.standsAt(10, 0);
  other.rewound(3, 11);
  other.prepend(asOf([...early, ...said(9)], Infinity).items.filter((item) => item.seq < 9));
  assert.deepEqual(other.items.map((item) => item.seq), [2, 3]);
});
