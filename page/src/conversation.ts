// One session as this page knows it: a cursor on its journal, and what it was told up to there.
// Pure: frames in, state out. Nothing here knows of sockets, clocks or the screen.

import type {
  Attached, Command, ConfigOption, ContentBlock, Cursor, Json, PlanEntry, QueuedPrompt, QueueNotice, ToolContent,
  TurnNotice, TurnState, Update, UpdateMeta,
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
  /** A prompt that did not run, for writing it again. */
  prompt?: string;
}

/** A prompt whose turn has not begun: ours on its way, or one that waits in the session's queue. */
export interface Pending {
  /** The client's name for it; other clients may give none. */
  promptId?: string;
  /** The event that queued it. */
  seq?: number;
  isOwn: boolean;
  text: string;
  blocks: ContentBlock[];
  state: "sent" | "queued" | "failed";
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
  /** The same for how full the window is. */
  private usages: { seq: number; usage: Usage }[] = [];
  private places = new Map<string, Item>();
  /** Updates of an event that has not come whole. */
  private held: { update: Update; meta: UpdateMeta }[] = [];

  get usage(): Usage | null {
    return this.usages.at(-1)?.usage ?? null;
  }

  get plan(): PlanEntry[] {
    return this.plans.at(-1)?.entries ?? [];
  }

  /** How many prompts wait for their turn. */
  get queued(): number {
    return this.pending.filter((pending) => pending.state !== "failed").length;
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
    // Events that follow say which of these are gone by now.
    for (const queued of answer.queue ?? []) this.enqueue(queued);
    this.rev++;
  }

  /** Everything is about to be told from the beginning. */
  reset(): void {
    this.items = [];
    this.places.clear();
    this.plans = [];
    this.held = [];
    this.pending = this.pending.filter((pending) => pending.isOwn);
    this.usages = [];
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
    if (notice.state === "running") {
      if (notice.promptId) this.started(notice.promptId, notice.seq - 1);
      this.pending = this.pending.filter((pending) => pending.seq === undefined || pending.seq !== notice.queued);
    }
    if (notice.state !== "idle") return;
    if (notice.error) {
      // The journal tells later of what was told when the store failed.
      if (this.failed === notice.turn) return;
      this.failed = notice.turn;
      if (notice.error.kind === "interrupted") this.note(notice.seq, "error", "Interrupted: the server stopped during this turn");
      else this.note(notice.seq, "error", "The turn failed", notice.error.message);
    } else if (notice.stopReason && notice.stopReason in STOPPED) {
      this.note(notice.seq, "info", STOPPED[notice.stopReason] ?? notice.stopReason);
    } else if (notice.stopReason === "end_turn" && this.isUnanswered()) {
      this.note(notice.seq, "warning", "The model returned an empty answer");
    }
  }

  /** Whether nothing was said after the last prompt or tool call. What began before this page's part is not judged. */
  private isUnanswered(): boolean {
    for (let at = this.items.length - 1; at >= 0; at--) {
      const item = this.items[at];
      if (item?.kind === "user" || item?.kind === "tool") return true;
      if (item?.kind === "agent" && item.text.trim() !== "") return false;
    }
    return false;
  }

  /** `_fastness/queue`. */
  queueTold(notice: QueueNotice): void {
    this.rev++;
    if (notice.seq < this.cursor.seq) return;
    // A message may be open: prompts are queued while one is streamed.
    if (notice.seq > this.cursor.seq) this.move({ seq: notice.seq, ...(notice.offset === undefined ? {} : { offset: notice.offset }) });
    if (notice.state === "queued") this.enqueue(notice.prompt);
    else this.dequeued(notice.queued, notice.seq, notice.interrupted ?? false);
  }

  private enqueue({ seq, promptId, text, cut }: QueuedPrompt): void {
    const known = this.pending.find((pending) => pending.seq === seq || (promptId !== undefined && pending.promptId === promptId));
    if (known) {
      Object.assign(known, { seq, state: "queued" });
      return;
    }
    const shown = cut ? `${text}…` : text;
    this.pending.push({ seq, isOwn: false, text: shown, blocks: [{ type: "text", text: shown }], state: "queued", ...(promptId ? { promptId } : {}) });
    this.pending.sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity));
  }

  /** A queued prompt will not run: that is said where it happened, and the prompt can be written again. */
  private dequeued(queued: number, seq: number, isInterrupted: boolean): void {
    const prompt = this.pending.find((pending) => pending.seq === queued);
    this.pending = this.pending.filter((pending) => pending !== prompt);
    const why = isInterrupted ? "the server stopped before its turn" : "it was cancelled before its turn";
    this.note(seq, "warning", `A queued prompt was not run: ${why}`, prompt?.text, prompt?.text);
  }

  /** `_fastness/rewound`: what came after `to` is undone. */
  rewound(to: number, seq: number): void {
    // The figure after the undo comes with the same event.
    const figures = this.usages.filter((usage) => usage.seq === seq);
    this.dropFrom(to + 1);
    this.usages.push(...figures);
    this.move({ seq });
    this.rev++;
  }

  /** We send a prompt; it stands below everything until the journal has it. */
  prompted(promptId: string, text: string, blocks: ContentBlock[]): void {
    this.pending.push({ promptId, isOwn: true, text, blocks, state: "sent" });
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
  dismissed(failed: Pending): void {
    this.pending = this.pending.filter((pending) => pending !== failed);
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
    this.usages = this.usages.filter((usage) => usage.seq < from);
    // Ours are sent again; the server says what became of the others.
    this.pending = this.pending.filter((pending) => pending.isOwn || (pending.seq ?? 0) < from);
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
        this.used(seq, update);
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

  /** How full the window is. An update without a cost leaves what was spent as it is. */
  private used(seq: number, { used, size, cost }: Update): void {
    const spent = cost ?? this.usage?.cost;
    this.usages.push({ seq, usage: { used: used ?? 0, size: size ?? 0, ...(spent ? { cost: spent } : {}) } });
    if (this.usages.length > 200) this.usages.splice(0, 100);
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
    if (meta.promptId !== undefined && this.started(meta.promptId, meta.seq)) return;
    const item: UserItem = { kind: "user", key, seq: meta.seq, rev: 0, blocks: [block] };
    if (meta.promptId) item.promptId = meta.promptId;
    this.add(item);
  }

  /** A prompt is in the journal now. Says whether it was ours, and so is shown already; others' are told in full. */
  private started(promptId: string, seq: number): boolean {
    const started = this.pending.find((pending) => pending.promptId === promptId);
    if (!started) return false;
    this.pending = this.pending.filter((pending) => pending !== started);
    if (started.isOwn) this.add({ kind: "user", key: `p${promptId}`, seq, rev: 0, promptId, blocks: started.blocks });
    return started.isOwn;
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

  private note(seq: number, level: NoteItem["severity"], text: string, detail?: string, prompt?: string): void {
    const key = `n${seq}`;
    if (this.places.has(key)) return;
    this.add({ kind: "note", key, seq, rev: 0, severity: level, text, ...(detail ? { detail } : {}), ...(prompt ? { prompt } : {}) });
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
