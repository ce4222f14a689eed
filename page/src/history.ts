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
    case "compaction": told({ sessionUpdate: "compaction_update", summary: text ? [{ type: "text", text }] : [] }); break;
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
    case "session.rewound": conversation.rewound(Number(event.to), event.seq); break;
    default: break;
  }
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
    case "result": return `turn ${event.turn} ended`;
    default: return event.type;
  }
}
