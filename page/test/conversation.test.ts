// A client is a cursor: whatever breaks and comes again, each thing stands on the page once.

import assert from "node:assert/strict";
import test from "node:test";
import { Conversation, forkPoint, textOf, type Item, type Pending } from "../src/conversation";
import type { Update, UpdateMeta } from "../src/wire";

/** The page's items as lines, for a person to compare. */
function shown(conversation: Conversation): string[] {
  const line = (item: Item): string => {
    if (item.kind === "user") return `user ${textOf(item.blocks)}`;
    if (item.kind === "tool") return `tool ${item.title} ${item.outcome ?? item.status}`;
    return `${item.kind} ${item.text}`;
  };
  return [...conversation.items.map(line), ...conversation.pending.map((own) => `${own.state} ${own.text}`)];
}

const chunk = (messageId: string, text: string): Update => ({ sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text } });
const heard = (messageId: string, text: string): Update => ({ sessionUpdate: "user_message_chunk", messageId, content: { type: "text", text } });

/** What a server tells of one small session, in order, with the cursor after each. */
function stream(): { update: Update; meta: UpdateMeta }[] {
  return [
    { update: heard("u1", "hello "), meta: { seq: 2, epoch: 0, more: true } },
    { update: heard("u1", "there"), meta: { seq: 2, epoch: 0 } },
    { update: chunk("m1", "Hé"), meta: { seq: 4, epoch: 0, offset: 3 } },
    { update: chunk("m1", "llo"), meta: { seq: 4, epoch: 0, offset: 6 } },
    { update: { sessionUpdate: "session_info_update", title: "greeting" }, meta: { seq: 5, epoch: 0, offset: 6 } },
    { update: chunk("m1", "!"), meta: { seq: 5, epoch: 0, offset: 7 } },
    { update: { sessionUpdate: "tool_call", toolCallId: "c1", title: "Run", name: "bash", status: "pending" }, meta: { seq: 7, epoch: 0 } },
    { update: { sessionUpdate: "tool_call_update", toolCallId: "c1", status: "completed", rawOutput: { status: "completed" } }, meta: { seq: 8, epoch: 0 } },
    { update: chunk("m2", "Done."), meta: { seq: 10, epoch: 0, offset: 5 } },
  ];
}

const WHOLE = ["user hello there", "agent Héllo!", "tool Run completed", "agent Done."];

test("a stream is shown once, in order", () => {
  const conversation = new Conversation();
  for (const { update, meta } of stream()) conversation.update(update, meta);
  assert.deepEqual(shown(conversation), WHOLE);
  assert.deepEqual(conversation.cursor, { epoch: 0, seq: 10, offset: 5 });
  assert.equal(conversation.title, "greeting");
});

test("wherever the connection breaks, what comes after the cursor completes the page", () => {
  for (let cut = 0; cut <= stream().length; cut++) {
    const conversation = new Conversation();
    for (const { update, meta } of stream().slice(0, cut)) conversation.update(update, meta);
    conversation.lost();
    const { seq, offset } = conversation.cursor;
    // The server sends what lies after the cursor, and of a message that is open there the rest of its bytes.
    for (const { update, meta } of stream()) {
      const isAfter = meta.seq > seq || (meta.seq === seq && (meta.offset ?? 0) > offset);
      if (isAfter) conversation.update(update, meta);
    }
    assert.deepEqual(shown(conversation), WHOLE, `cut after ${cut}`);
  }
});

test("an update that is told twice is shown once", () => {
  const conversation = new Conversation();
  for (const { update, meta } of stream()) {
    conversation.update(update, meta);
    if (!meta.more) conversation.update(update, meta);
  }
  assert.deepEqual(shown(conversation), WHOLE);
});

test("half of an event is forgotten when the connection breaks", () => {
  const conversation = new Conversation();
  conversation.update(heard("u1", "hello "), { seq: 2, epoch: 0, more: true });
  assert.deepEqual(shown(conversation), []);
  conversation.lost();
  conversation.update(heard("u1", "hello "), { seq: 2, epoch: 0, more: true });
  conversation.update(heard("u1", "there"), { seq: 2, epoch: 0 });
  assert.deepEqual(shown(conversation), ["user hello there"]);
});

test("a prompt of ours stands once, whether or not it comes back", () => {
  const own = () => {
    const conversation = new Conversation();
    conversation.prompted("p1", "do it", [{ type: "text", text: "do it" }]);
    return conversation;
  };
  const live = own();
  assert.deepEqual(shown(live), ["sent do it"]);
  live.turnTold({ seq: 3, turn: 1, state: "running", promptId: "p1" });
  live.update(chunk("m1", "ok"), { seq: 4, epoch: 0, offset: 2 });
  assert.deepEqual(shown(live), ["user do it", "agent ok"]);
  // The connection broke before the cursor had moved: all of it is told again.
  const again = own();
  again.update(heard("u1", "do it"), { seq: 2, epoch: 0, promptId: "p1" });
  again.turnTold({ seq: 3, turn: 1, state: "running", promptId: "p1" });
  again.update(chunk("m1", "ok"), { seq: 4, epoch: 0, offset: 2 });
  assert.deepEqual(shown(again), ["user do it", "agent ok"]);
  again.answered("p1", null);
  assert.deepEqual(shown(again), ["user do it", "agent ok"]);
});

test("a turn that the store failed under is noted once, and the open message goes on", () => {
  const conversation = new Conversation();
  conversation.turnTold({ seq: 3, turn: 1, state: "running" });
  conversation.update(chunk("m1", "half"), { seq: 4, epoch: 0, offset: 4 });
  const error = { kind: "storage_failed", message: "the disk failed" };
  conversation.turnTold({ seq: 4, turn: 1, state: "idle", error });
  assert.deepEqual(conversation.cursor, { epoch: 0, seq: 4, offset: 4 });
  const once = shown(conversation);
  conversation.turnTold({ seq: 6, turn: 1, state: "idle", error });
  assert.deepEqual(conversation.cursor, { epoch: 0, seq: 6, offset: 0 });
  assert.deepEqual(shown(conversation), once);
});

test("a prompt that waits stays below what others do, and says when it never began", () => {
  const conversation = new Conversation();
  conversation.prompted("p1", "mine", [{ type: "text", text: "mine" }]);
  conversation.update(heard("u9", "theirs"), { seq: 2, epoch: 0, promptId: "other" });
  conversation.update(chunk("m1", "answer"), { seq: 4, epoch: 0, offset: 6 });
  assert.deepEqual(shown(conversation), ["user theirs", "agent answer", "sent mine"]);
  conversation.answered("p1", null);
  assert.deepEqual(shown(conversation), ["user theirs", "agent answer", "failed mine"]);
  conversation.dismissed(conversation.pending[0] as Pending);
  assert.deepEqual(shown(conversation), ["user theirs", "agent answer"]);
});

test("resyncFrom drops what was cut, and the outcome of a call that stays", () => {
  const conversation = new Conversation();
  for (const { update, meta } of stream()) conversation.update(update, meta);
  conversation.attached({ resyncFrom: 8, turn: { id: 1, state: "running" } });
  assert.deepEqual(shown(conversation), ["user hello there", "agent Héllo!", "tool Run pending"]);
  assert.deepEqual(conversation.resumeMeta(), { afterSeq: 7, epoch: 0, offset: 0 });
  conversation.update({ sessionUpdate: "tool_call_update", toolCallId: "c1", status: "failed", rawOutput: { status: "unknown" } }, { seq: 9, epoch: 1 });
  assert.deepEqual(shown(conversation).at(-1), "tool Run unknown");
  assert.equal(conversation.cursor.epoch, 1);
});

test("what is undone disappears, and the cursor stands after the undoing", () => {
  const conversation = new Conversation();
  for (const { update, meta } of stream()) conversation.update(update, meta);
  conversation.update({ sessionUpdate: "plan", entries: [{ content: "x", status: "pending" }] }, { seq: 11, epoch: 0 });
  conversation.rewound(1, 12);
  assert.deepEqual(shown(conversation), []);
  assert.deepEqual(conversation.plan, []);
  assert.deepEqual(conversation.cursor, { epoch: 0, seq: 12, offset: 0 });
  conversation.update(heard("u2", "anew"), { seq: 13, epoch: 0 });
  assert.deepEqual(shown(conversation), ["user anew"]);
});

test("progress of a call is no event: it moves nothing, and comes to an end with the call", () => {
  const conversation = new Conversation();
  conversation.update({ sessionUpdate: "tool_call", toolCallId: "c1", title: "Run", status: "pending" }, { seq: 7, epoch: 0 });
  conversation.update({ sessionUpdate: "tool_call_update", toolCallId: "c1", status: "in_progress", content: [] }, undefined);
  assert.deepEqual(shown(conversation), ["tool Run in_progress"]);
  assert.equal(conversation.cursor.seq, 7);
  conversation.update({ sessionUpdate: "tool_call_update", toolCallId: "c1", status: "completed" }, { seq: 8, epoch: 0 });
  conversation.update({ sessionUpdate: "tool_call_update", toolCallId: "c1", status: "in_progress" }, undefined);
  assert.deepEqual(shown(conversation), ["tool Run completed"]);
});

test("a copy from a prompt ends before it, from an answer after its turn", () => {
  const conversation = new Conversation();
  for (const { update, meta } of stream()) conversation.update(update, meta);
  conversation.update(heard("u2", "next"), { seq: 13, epoch: 0 });
  const [user, agent] = conversation.items;
  const last = conversation.items.at(-1);
  assert.ok(user && agent && last);
  assert.equal(forkPoint(conversation.items, user, 13), 1);
  assert.equal(forkPoint(conversation.items, agent, 13), 12);
  assert.equal(forkPoint(conversation.items, last, 13), 12);
});

