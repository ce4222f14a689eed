// What is written and does not run at once: where it waits, and what became of it.

import assert from "node:assert/strict";
import test from "node:test";
import { Conversation, type NoteItem, textOf } from "../src/conversation";
import { asOf, forkEnd, tell } from "../src/history";
import { reveal, spelled } from "../src/invisible";
import type { JournalEvent } from "../src/wire";

const event = (seq: number, type: string, fields: Record<string, unknown> = {}): JournalEvent => ({ seq, ts: 0, type, ...fields });

/** A turn with two prompts queued behind it, of which the first ran. */
const JOURNAL = [
  event(1, "session.created"),
  event(2, "user.message", { text: "one", messageId: "u1" }),
  event(3, "turn.started", { turn: 1 }),
  event(4, "prompt.queued", { text: "two", promptId: "p2", messageId: "u2" }),
  event(5, "prompt.queued", { text: "three", messageId: "u3" }),
  event(6, "assistant.message", { text: "yes", messageId: "m1" }),
  event(7, "result", { turn: 1, stopReason: "end_turn" }),
  event(8, "user.message", { text: "two", promptId: "p2", messageId: "u2" }),
  event(9, "turn.started", { turn: 2, promptId: "p2", queued: 4 }),
  event(10, "turn.interrupted", { turn: 2 }),
  event(11, "prompt.dropped", { queued: 5, interrupted: true }),
];

function told(upTo: number): Conversation {
  const conversation = new Conversation();
  for (const one of JOURNAL.filter(({ seq }) => seq <= upTo)) tell(conversation, one);
  return conversation;
}

const waiting = (conversation: Conversation) => conversation.pending.map(({ state, text }) => `${state} ${text}`);
const lines = (conversation: Conversation) => conversation.items.map((item) => (item.kind === "user" ? textOf(item.blocks) : item.kind === "tool" ? item.title : item.text));

test("queued prompts wait in order until their turn begins or they are dropped", () => {
  assert.deepEqual(waiting(told(7)), ["queued two", "queued three"]);
  assert.deepEqual(waiting(told(9)), ["queued three"]);
  assert.deepEqual(lines(told(9)), ["one", "yes", "two"]);
  assert.deepEqual(waiting(told(11)), []);
  const dropped = told(11).items.at(-1) as NoteItem;
  assert.equal(dropped.text, "A queued prompt was not run: the server stopped before its turn");
  assert.deepEqual([dropped.detail, dropped.prompt], ["three", "three"]);
});

test("a prompt of ours is one thing, whether it is sent, queued or begun", () => {
  const conversation = told(3);
  conversation.prompted("p2", "two", [{ type: "text", text: "two" }]);
  assert.deepEqual(waiting(conversation), ["sent two"]);
  conversation.queueTold({ seq: 4, state: "queued", prompt: { seq: 4, promptId: "p2", text: "two" } });
  conversation.queueTold({ seq: 5, state: "queued", prompt: { seq: 5, text: "three", cut: true } });
  assert.deepEqual(waiting(conversation), ["queued two", "queued three…"]);
  // A message was being streamed: what was seen of it is not told again.
  conversation.queueTold({ seq: 6, offset: 12, state: "queued", prompt: { seq: 6, promptId: "p9", text: "nine" } });
  assert.deepEqual(conversation.cursor, { epoch: 0, seq: 6, offset: 12 });
  conversation.queueTold({ seq: 7, state: "dropped", queued: 6 });
  conversation.turnTold({ seq: 9, turn: 2, state: "running", promptId: "p2", queued: 4 });
  assert.deepEqual(waiting(conversation), ["queued three…"]);
  assert.equal(lines(conversation).filter((line) => line === "two").length, 1);
  conversation.queueTold({ seq: 11, state: "dropped", queued: 5 });
  assert.deepEqual(lines(conversation).slice(-1), ["A queued prompt was not run: it was cancelled before its turn"]);
});

test("whoever attaches learns what waits, and hears of it once", () => {
  const conversation = new Conversation();
  const queue = [{ seq: 4, promptId: "p2", text: "two" }, { seq: 5, text: "three" }];
  conversation.attached({ turn: { id: 1, state: "running" }, queue, cursor: { seq: 5 } });
  conversation.attached({ turn: { id: 1, state: "running" }, queue });
  assert.deepEqual(waiting(conversation), ["queued two", "queued three"]);
});

test("an empty answer is said, and a turn that answered or was only partly read is not judged", () => {
  const turn = (...between: JournalEvent[]) => [event(2, "user.message", { text: "one" }), event(3, "turn.started", { turn: 1 }), ...between, event(9, "result", { turn: 1, stopReason: "end_turn" })];
  const last = (events: JournalEvent[]) => (asOf(events, Infinity).items.at(-1) as NoteItem | undefined)?.text;
  assert.equal(last(turn()), "The model returned an empty answer");
  assert.equal(last(turn(event(4, "assistant.message", { text: " \n", messageId: "m" }))), "The model returned an empty answer");
  assert.equal(last(turn(event(4, "assistant.message", { text: "yes", messageId: "m" }), event(5, "tool.use", { callId: "c" }), event(6, "tool.result", { callId: "c", status: "completed" }))), "The model returned an empty answer");
  assert.equal(last(turn(event(4, "assistant.message", { text: "yes", messageId: "m" }))), "yes");
  assert.equal(last(turn().slice(2)), undefined);
});

test("a copy ends where it says: at the event, or before the turn that the event is in", () => {
  const ends = JOURNAL.map(({ seq }) => forkEnd(JOURNAL, seq));
  assert.deepEqual(ends, [1, 1, 1, 1, 1, 1, 7, 7, 7, 10, 11]);
  assert.equal(forkEnd([event(1, "turn.started", { turn: 1 })], 1), null);
});

test("what cannot be seen is shown by its code point, and emoji stay whole", () => {
  assert.equal(spelled("a\u202eb\u200bc\u{e0041}"), "a[U+202E]b[U+200B]c[U+E0041]");
  assert.equal(spelled("\u2066x\u2069\u061c\u00ad\ufeff\u0007\u2028\u180e"), "[U+2066]x[U+2069][U+061C][U+00AD][U+FEFF][U+0007][U+2028][U+180E]");
  for (const whole of ["plain", "", "two\nlines\tand\r\nmore", "👩🏽‍💻 ❤️ 1️⃣ 👨‍👩‍👧", "שלום עולם", "日本語"]) assert.equal(spelled(whole), whole);
  assert.equal(spelled("👩\u200d\u200dx"), "👩[U+200D][U+200D]x");
  assert.equal(spelled("a\rb\ud800"), "a[U+000D]b[U+D800]");
  // Persian needs the non-joiner; nothing that is written needs an override.
  assert.deepEqual(reveal("می\u200cخواهم", true).length, 1);
  assert.deepEqual(reveal("a\u202eb", true).map(({ text }) => text), ["a", "U+202E", "b"]);
  assert.deepEqual(reveal("a\u200b"), [{ text: "a", isMark: false }, { text: "U+200B", isMark: true }]);
});

test("the context figure follows compaction and undo", () => {
  const conversation = new Conversation();
  const usage = (seq: number, inputTokens: number) => event(seq, "usage", { turn: 1, inputTokens, outputTokens: 0, contextWindow: 1000 });
  for (const one of [usage(2, 100), usage(5, 900), event(6, "compaction", { kind: "summary", upTo: 5, text: "short", tokensBefore: 900, tokensAfter: 50 })]) tell(conversation, one);
  assert.deepEqual(conversation.usage, { used: 50, size: 1000 });
  conversation.rewound(3, 7);
  assert.deepEqual(conversation.usage, { used: 100, size: 1000 });
  // The server says the figure of an undo with the same event, before the undo itself.
  const cost = { amount: 1, currency: "USD" };
  conversation.update({ sessionUpdate: "usage_update", used: 500, size: 1000, cost }, { seq: 8, epoch: 0 });
  conversation.update({ sessionUpdate: "usage_update", used: 70, size: 1000 }, { seq: 9, epoch: 0 });
  assert.deepEqual(conversation.usage, { used: 70, size: 1000, cost }, "what was spent stays spent");
  conversation.rewound(3, 9);
  assert.deepEqual(conversation.usage?.used, 70);
  tell(conversation, event(10, "session.rewound", { to: 1, contextTokens: 30, contextWindow: 1000 }));
  assert.equal(conversation.usage?.used, 30);
});
