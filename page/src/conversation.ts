// One session as this page knows it: a cursor on its journal, and what it was told up to there.
// Pure: frames in, state out. Nothing here knows of sockets, clocks or the screen.

import type {
  Attached, Command, ConfigOption, ContentBlock, Cursor, Json, PlanEntry, ToolContent, TurnNotice, TurnState,
  Update, UpdateMeta,
} from "./wire";

/** One thing on the screen. `rev` grows whenever it changes; `seq` is the event that began it. */
export type Item = UserItem | TextItem | ToolItem | NoteItem;

interface Base {
  key: string;
  seq: number;
  rev: number;
}

export interface UserItem extends Base {
  kind: "user";
  promptId?: string;
  blocks: ContentBlock[];
}

export interface TextItem extends Base {
  kind: "agent" | "thought" | "greeting";
  messageId: string;
  text: string;
}

export interface ToolItem extends Base {
  kind: "tool";
  callId: string;
  title: string;
  name: string;
  toolKind: string;
  input: Json;
  status: string;
  /** What it would do, told before it ran. */
  proposed: ToolContent[];
  /** What it gave, or shows of itself while it runs. */
  content: ToolContent[];
  locations: { path: string; line?: number | null }[];
  /** How it ended, in the journal's words. */
  outcome?: string;
  /** The event that ended it. */
  endSeq?: number;
  agent?: { name: string; sessionId: string };
}

export interface NoteItem extends Base {
  kind: "note";
  severity: "info" | "warning" | "error";
  text: string;
  detail?: string;
}

/** A prompt of ours that has not shown up in the journal yet. */
export interface Pending {
  promptId: string;
  text: string;
  blocks: ContentBlock[];
  state: "sent" | "failed";
  why?: string;
}

export interface Usage {
  used: number;
  size: number;
  cost?: { amount: number; currency: string };
}

/** Plans are kept with their place, so that undoing finds the one before. */
interface Planned {
  seq: number;
  entries: PlanEntry[];
}

const STOPPED: Record<string, string> = {
  cancelled: "Cancelled",
  max_tokens: "Stopped: no more tokens in the budget",
  max_turn_requests: "Stopped: the turn used up its steps",
  refusal: "The model declined to answer",
};

export class Conversation {
  items: Item[] = [];
  pending: Pending[] = [];
  cursor: Cursor = { epoch: 0, seq: 0, offset: 0 };
  turn: { id: number; state: TurnState } = { id: 0, state: "idle" };
  title: string | null = null;
  mode: string | null = null;
  commands: Command[] = [];
  options: ConfigOption[] = [];
  usage: Usage | null = null;
  damagedAt: number | null = null;
  /** The newest turn whose failure is noted. */
  private failed: number | null = null;
  resumeToken: string | null = null;
  /** How many items were put before those that were there first. */
  base = 0;
  /** Grows with every change. */
  rev = 0;

  /** What lies after this and before what is shown was undone: it is not to be put there. */
  private kept = Infinity;

  private plans: Planned[] = [];
  private places = new Map<string, Item>();
  /** Updates of an event that has not come whole. */
  private held: { update: Update; meta: UpdateMeta }[] = [];

  get plan(): PlanEntry[] {
    return this.plans.at(-1)?.entries ?? [];
  }

  /** What to send in `session/resume`. */
  resumeMeta(): Record<string, Json> {
    const { seq, epoch, offset } = this.cursor;
    const meta: Record<string, Json> = { afterSeq: seq, epoch, offset };
    if (this.resumeToken !== null) meta.resumeToken = this.resumeToken;
    return meta;
  }

  /** The connection broke: what had not come whole will come again. */
  lost(): void {
    this.held = [];
  }

  /** We were let in, by `session/new`, `load` or `resume`. */
  attached(answer: Attached): void {
    if (answer.resyncFrom !== undefined) {
      this.dropFrom(answer.resyncFrom);
      this.cursor = { epoch: this.cursor.epoch, seq: answer.resyncFrom - 1, offset: 0 };
    } else if (answer.cursor !== undefined && answer.cursor.seq > this.cursor.seq) {
      this.move(answer.cursor);
    }
    this.resumeToken = answer.resumeToken ?? this.resumeToken;
    this.damagedAt = answer.damagedAt ?? null;
    if (answer.turn) this.turn = { id: answer.turn.id, state: answer.turn.state };
    this.rev++;
  }

  /** Everything is about to be told from the beginning. */
  reset(): void {
    this.items = [];
    this.places.clear();
    this.plans = [];
    this.held = [];
    this.usage = null;
    this.base = 0;
    this.kept = Infinity;
    this.failed = null;
    this.cursor = { epoch: 0, seq: 0, offset: 0 };
    this.rev++;
  }

  /** What was read from the journal stands up to `seq`; what comes after it is told. */
  standsAt(seq: number, epoch: number): void {
    this.cursor = { epoch, seq, offset: 0 };
    this.rev++;
  }

  /** Puts what happened before everything that is shown. */
  prepend(earlier: Item[]): void {
    const fresh = earlier.filter((item) => item.seq <= this.kept && !this.places.has(item.key));
    for (const item of fresh) this.places.set(item.key, item);
    this.items = [...fresh, ...this.items];
    this.base += fresh.length;
    this.rev++;
  }

  /** `session/update`. */
  update(update: Update, meta: UpdateMeta | undefined): void {
    this.rev++;
    if (!meta) {
      this.apply(update, null);
      return;
    }
    if (this.has(update, meta)) return;
    if (meta.more) {
      this.held.push({ update, meta });
      return;
    }
    const held = this.held;
    this.held = [];
    for (const before of held) this.apply(before.update, before.meta);
    this.apply(update, meta);
    this.move(meta);
  }

  /** `_fastness/turn`. */
  turnTold(notice: TurnNotice): void {
    this.rev++;
    if (notice.seq < this.cursor.seq) return;
    // What tells of no new event, as that the store failed, leaves us where we are.
    if (notice.seq > this.cursor.seq) this.move({ seq: notice.seq });
    this.turn = { id: notice.turn, state: notice.state };
    if (notice.promptId && notice.state === "running") this.started(notice.promptId, notice.seq - 1);
    if (notice.state !== "idle") return;
    if (notice.error) {
      // The journal tells later of what was told when the store failed.
      if (this.failed === notice.turn) return;
      this.failed = notice.turn;
      const text = notice.error.kind === "interrupted" ? "Interrupted: the server stopped during this turn" : "The turn failed";
      this.note(notice.seq, "error", text, notice.error.message);
    } else if (notice.stopReason && notice.stopReason in STOPPED) {
      this.note(notice.seq, "info", STOPPED[notice.stopReason] ?? notice.stopReason);
    }
  }

  /** `_fastness/rewound`: what came after `to` is undone. */
  rewound(to: number, seq: number): void {
    this.dropFrom(to + 1);
    this.move({ seq });
    this.rev++;
  }

  /** We send a prompt; it stands below everything until the journal has it. */
  prompted(promptId: string, text: string, blocks: ContentBlock[]): void {
    this.pending.push({ promptId, text, blocks, state: "sent" });
    this.rev++;
  }

  /** A prompt of ours was answered. If it never began, it says so. */
  answered(promptId: string, failure: string | null): void {
    const waiting = this.pending.find((pending) => pending.promptId === promptId);
    if (!waiting) return;
    waiting.state = "failed";
    waiting.why = failure ?? "It was dropped before it began";
    this.rev++;
  }

  /** The person does not want to see a prompt that failed any more. */
  dismissed(promptId: string): void {
    this.pending = this.pending.filter((pending) => pending.promptId !== promptId);
    this.rev++;
  }

  /** Whether the cursor already stands at or behind this. The server sees to that too; it costs nothing to be sure. */
  private has(update: Update, meta: UpdateMeta): boolean {
    const { epoch, seq, offset } = this.cursor;
    if ((meta.epoch ?? epoch) !== epoch || meta.seq > seq) return false;
    if (meta.seq < seq) return true;
    const isText = update.sessionUpdate.startsWith("agent_");
    return isText ? meta.offset !== undefined && offset > 0 && meta.offset <= offset : (meta.offset ?? 0) === offset;
  }

  private move(meta: UpdateMeta): void {
    this.cursor = { epoch: meta.epoch ?? this.cursor.epoch, seq: meta.seq, offset: meta.offset ?? 0 };
  }

  /** Drops what began at `from` or later, and takes back what happened to earlier things since. */
  private dropFrom(from: number): void {
    this.kept = Math.min(this.kept, from - 1);
    this.failed = null;
    this.items = this.items.filter((item) => {
      if (item.seq < from) return true;
      this.places.delete(item.key);
      return false;
    });
    for (const item of this.items) {
      if (item.kind !== "tool" || item.endSeq === undefined || item.endSeq < from) continue;
      delete item.endSeq;
      delete item.outcome;
      item.status = "pending";
      item.content = [];
      item.rev++;
    }
    this.plans = this.plans.filter((plan) => plan.seq < from);
    this.held = [];
  }

  private apply(update: Update, meta: UpdateMeta | null): void {
    const seq = meta?.seq ?? this.cursor.seq;
    switch (update.sessionUpdate) {
      case "user_message_chunk":
        if (meta) this.heard(update, meta);
        break;
      case "agent_message_chunk":
      case "agent_thought_chunk":
        this.said(update, seq, meta);
        break;
      case "tool_call":
      case "tool_call_update":
        this.called(update, meta);
        break;
      case "plan":
        this.plans.push({ seq, entries: update.entries ?? [] });
        if (this.plans.length > 200) this.plans.splice(0, 100);
        break;
      case "usage_update":
        this.usage = { used: update.used ?? 0, size: update.size ?? 0, ...(update.cost ? { cost: update.cost } : {}) };
        break;
      case "current_mode_update":
        this.mode = update.currentModeId ?? null;
        break;
      case "session_info_update":
        if (update.title !== undefined) this.title = update.title;
        break;
      case "available_commands_update":
        this.commands = update.availableCommands ?? [];
        break;
      case "config_option_update":
        this.options = update.configOptions ?? [];
        break;
      case "compaction_update":
        this.note(seq, "info", "Older parts were summed up for the model", textOf(update.summary ?? []));
        break;
      case "notice":
        this.note(seq, severity(update.severity), update.title ?? "");
        break;
    }
  }

  private heard(update: Update, meta: UpdateMeta): void {
    const block = update.content as ContentBlock;
    const key = update.messageId ? `u${update.messageId}` : `u@${meta.seq}`;
    const known = this.places.get(key) ?? (meta.promptId ? this.places.get(`p${meta.promptId}`) : undefined);
    if (known?.kind === "user") {
      // Our own comes back after a reconnect; we showed it when we sent it.
      if (known.promptId !== undefined && known.key === `p${known.promptId}`) return;
      known.blocks.push(block);
      known.rev++;
      return;
    }
    const own = this.pending.find((pending) => pending.promptId === meta.promptId);
    if (own) {
      this.started(own.promptId, meta.seq);
      return;
    }
    const item: UserItem = { kind: "user", key, seq: meta.seq, rev: 0, blocks: [block] };
    if (meta.promptId) item.promptId = meta.promptId;
    this.add(item);
  }

  /** A prompt of ours is in the journal now. */
  private started(promptId: string, seq: number): void {
    const own = this.pending.find((pending) => pending.promptId === promptId);
    if (!own) return;
    this.pending = this.pending.filter((pending) => pending !== own);
    this.add({ kind: "user", key: `p${promptId}`, seq, rev: 0, promptId, blocks: own.blocks });
  }

  private said(update: Update, seq: number, meta: UpdateMeta | null): void {
    const text = (update.content as ContentBlock | undefined)?.text ?? "";
    const messageId = update.messageId ?? `@${seq}`;
    const known = this.places.get(`m${messageId}`);
    if (known && "text" in known && known.kind !== "note") {
      known.text += text;
      known.rev++;
      return;
    }
    const greeting = meta?.greeting ?? update._meta?.fastness?.greeting;
    const kind = greeting ? "greeting" : update.sessionUpdate === "agent_thought_chunk" ? "thought" : "agent";
    this.add({ kind, key: `m${messageId}`, seq, rev: 0, messageId, text });
  }

  private called(update: Update, meta: UpdateMeta | null): void {
    const callId = update.toolCallId ?? "";
    const seq = meta?.seq ?? this.cursor.seq;
    let item = this.places.get(`t${callId}`);
    if (item?.kind !== "tool") {
      // How a call went on that we do not have: it began before what is shown.
      if (!meta || update.sessionUpdate !== "tool_call") return;
      item = {
        kind: "tool", key: `t${callId}`, seq, rev: 0, callId, title: "", name: "", toolKind: "other",
        input: null, status: "pending", proposed: [], content: [], locations: [],
      };
      this.add(item);
    }
    if (item.endSeq !== undefined) return;
    item.rev++;
    if (update.title !== undefined) item.title = update.title;
    if (update.name !== undefined) item.name = update.name;
    if (update.kind !== undefined) item.toolKind = update.kind;
    if (update.status !== undefined) item.status = update.status;
    if (update.rawInput !== undefined) item.input = update.rawInput;
    if (update.locations?.length) item.locations = update.locations;
    const agent = update._meta?.fastness?.agent;
    if (agent) item.agent = agent;
    const content = update.content as ToolContent[] | undefined;
    if (content && update.sessionUpdate === "tool_call") item.proposed = content;
    else if (content) item.content = content;
    if (update.status === "completed" || update.status === "failed") {
      item.endSeq = seq;
      item.outcome = update.rawOutput?.status ?? update.status;
    }
  }

  private note(seq: number, level: NoteItem["severity"], text: string, detail?: string): void {
    const key = `n${seq}`;
    if (this.places.has(key)) return;
    this.add({ kind: "note", key, seq, rev: 0, severity: level, text, ...(detail ? { detail } : {}) });
  }

  private add(item: Item): void {
    this.places.set(item.key, item);
    this.items.push(item);
  }
}

/** The text of content blocks, for a person. */
export function textOf(blocks: ContentBlock[]): string {
  return blocks
    .map((block) => block.text ?? block.resource?.text ?? (block.uri ? `[${block.name ?? block.uri}]` : ""))
    .join("");
}

/** The last event that a copy has which is made "from here": before a prompt, after an answer's turn. */
export function forkPoint(items: Item[], item: Item, head: number): number {
  if (item.kind === "user") return item.seq - 1;
  const next = items.find((other) => other.kind === "user" && other.seq > item.seq);
  return next ? next.seq - 1 : head;
}

function severity(named: string | undefined): NoteItem["severity"] {
  return named === "warning" || named === "error" ? named : "info";
}
