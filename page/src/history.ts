// The journal as a conversation: what a person would have seen at some event. Pure.

import { Conversation, type Item } from "./conversation";
import type { ContentBlock, JournalEvent, PlanEntry, ToolContent, Update, UpdateMeta } from "./wire";

/** The conversation as it was once event `upTo` had happened. */
export function asOf(events: JournalEvent[], upTo: number): { items: Item[]; plan: PlanEntry[] } {
  const conversation = new Conversation();
  for (const event of events) {
    if (event.seq > upTo) break;
    tell(conversation, event);
  }
  return { items: conversation.items, plan: conversation.plan };
}

/** Tells a conversation of an event, as the server's updates would. */
export function tell(conversation: Conversation, event: JournalEvent): void {
  const meta: UpdateMeta = { seq: event.seq };
  const text = typeof event.text === "string" ? event.text : "";
  const told = (update: Update) => conversation.update(update, meta);
  const messageId = typeof event.messageId === "string" ? event.messageId : `@${event.seq}`;
  switch (event.type) {
    case "user.message": {
      const blocks = event.blocks as ContentBlock[] | undefined;
      const shown = blocks?.length ? blocks : [{ type: "text", text }];
      shown.forEach((content, index) => {
        conversation.update({ sessionUpdate: "user_message_chunk", messageId, content }, { ...meta, more: index < shown.length - 1 });
      });
      break;
    }
    case "assistant.message": told({ sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text } }); break;
    case "assistant.thought": told({ sessionUpdate: "agent_thought_chunk", messageId, content: { type: "text", text } }); break;
    case "notice":
      if (event.kind === "greeting") {
        conversation.update({ sessionUpdate: "agent_message_chunk", messageId, content: { type: "text", text } }, { ...meta, greeting: true });
      }
      break;
    case "tool.use": told(toolUse(event)); break;
    case "tool.result": told(toolResult(event)); break;
    case "plan.updated": told({ sessionUpdate: "plan", entries: event.entries as PlanEntry[] }); break;
    case "compaction": {
      const { usage } = conversation;
      told({ sessionUpdate: "compaction_update", summary: text ? [{ type: "text", text }] : [] });
      filled(conversation, event.tokensAfter, event.contextWindow ?? usage?.size);
      break;
    }
    case "result": {
      const error = event.error as { kind?: string; message?: string } | undefined;
      const stopReason = event.stopReason as string | undefined;
      conversation.turnTold({ seq: event.seq, turn: Number(event.turn), state: "idle", ...(error ? { error } : {}), ...(stopReason ? { stopReason } : {}) });
      break;
    }
    case "turn.interrupted":
      conversation.turnTold({ seq: event.seq, turn: Number(event.turn), state: "idle", error: { kind: "interrupted" } });
      break;
    case "usage": {
      const size = event.contextWindow as number | undefined;
      if (size === undefined || (event.purpose !== undefined && event.purpose !== "answer")) break;
      const nanos = event.sessionCostNanoUsd as number | undefined;
      const cost = nanos === undefined ? {} : { cost: { amount: nanos / 1e9, currency: "USD" } };
      told({ sessionUpdate: "usage_update", used: Number(event.inputTokens ?? 0) + Number(event.outputTokens ?? 0), size, ...cost });
      break;
    }
    case "child.linked":
      if (event.child) {
        const agent = { name: String(event.agent), sessionId: String(event.child) };
        told({ sessionUpdate: "tool_call_update", toolCallId: String(event.callId), status: "in_progress", _meta: { fastness: { agent } } });
      }
      break;
    case "turn.started": {
      const { promptId, queued } = event as { promptId?: string; queued?: number };
      conversation.turnTold({ seq: event.seq, turn: Number(event.turn), state: "running", ...(promptId ? { promptId } : {}), ...(queued ? { queued } : {}) });
      break;
    }
    case "prompt.queued": {
      const promptId = event.promptId as string | undefined;
      conversation.queueTold({ seq: event.seq, state: "queued", prompt: { seq: event.seq, text, ...(promptId ? { promptId } : {}) } });
      break;
    }
    case "prompt.dropped":
      conversation.queueTold({ seq: event.seq, state: "dropped", queued: Number(event.queued), interrupted: event.interrupted === true });
      break;
    case "session.rewound":
      conversation.rewound(Number(event.to), event.seq);
      filled(conversation, event.contextTokens, event.contextWindow);
      break;
    default: break;
  }
}

/** How full the window is after the conversation became shorter, where the event says it. */
function filled(conversation: Conversation, used: unknown, size: unknown): void {
  if (typeof used === "number" && typeof size === "number") conversation.update({ sessionUpdate: "usage_update", used, size }, undefined);
}

function toolUse(event: JournalEvent): Update {
  return {
    sessionUpdate: "tool_call",
    toolCallId: String(event.callId),
    title: String(event.title || event.name),
    name: String(event.name),
    kind: String(event.kind ?? "other"),
    status: "pending",
    rawInput: (event.input ?? null) as NonNullable<Update["rawInput"]>,
    content: (event.content ?? []) as ToolContent[],
  };
}

function toolResult(event: JournalEvent): Update {
  const status = String(event.status);
  const text = typeof event.text === "string" && event.text !== "" ? [{ type: "content", content: { type: "text", text: event.text } }] : [];
  const blocks = ((event.blocks ?? []) as ToolContent[]).map((block) => block.type === "diff" ? block : { type: "content", content: block as ContentBlock });
  return {
    sessionUpdate: "tool_call_update",
    toolCallId: String(event.callId),
    status: status === "completed" ? "completed" : "failed",
    content: [...text, ...blocks],
    rawOutput: { status },
  };
}

/**
 * Where a copy made at event `at` ends: there, or, inside a turn, after the turn before it. The server does the same;
 * null if nothing is left to copy.
 */
export function forkEnd(events: JournalEvent[], at: number): number | null {
  let [isTurnOpen, isMessageOpen, isPrompt] = [false, false, false];
  let [lastEnd, lastQuiet] = [0, 0];
  for (const { seq, type } of events) {
    if (seq > at) {
      // A prompt stands before the start of its turn.
      isTurnOpen ||= isPrompt && type === "turn.started";
      break;
    }
    const isEnd = type === "result" || type === "turn.interrupted";
    if (type === "turn.started" || isEnd) isTurnOpen = !isEnd;
    if (type === "message.started") isMessageOpen = true;
    if (type === "assistant.message" || type === "assistant.thought") isMessageOpen = false;
    isPrompt = type === "user.message";
    if (isTurnOpen || isMessageOpen) continue;
    if (isEnd) lastEnd = seq;
    if (!isPrompt) lastQuiet = seq;
  }
  const end = isTurnOpen || isMessageOpen ? lastEnd || lastQuiet : at;
  return end > 0 ? end : null;
}

/** What an event is, in a few words. */
export function describe(event: JournalEvent): string {
  const text = typeof event.text === "string" ? event.text : "";
  const short = (words: string) => (words.length > 80 ? `${words.slice(0, 80)}…` : words).replace(/\s+/g, " ");
  switch (event.type) {
    case "user.message": return `prompt: ${short(text)}`;
    case "assistant.message": return `answer: ${short(text)}`;
    case "assistant.thought": return `thought: ${short(text)}`;
    case "tool.use": return `${event.name}: ${short(String(event.title ?? ""))}`;
    case "tool.result": return `result: ${event.status}`;
    case "permission.asked": return `asked: ${short(String(event.title ?? ""))}`;
    case "permission.answered": return `answered: ${event.outcome}`;
    case "turn.started": return `turn ${event.turn} began`;
    case "result": return `turn ${event.turn} ${event.error ? "failed" : event.stopReason === "cancelled" ? "was cancelled" : "ended"}`;
    case "turn.interrupted": return `turn ${event.turn} was interrupted`;
    case "prompt.queued": return `queued: ${short(text)}`;
    case "prompt.dropped": return `queued prompt ${event.queued} was dropped`;
    default: return event.type;
  }
}
