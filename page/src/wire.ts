// What travels between the page and the server, as far as the page reads it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Where a client stands in a session's journal. */
export interface Cursor {
  epoch: number;
  seq: number;
  offset: number;
}

/** `_meta.fastness` of a `session/update`. */
export interface UpdateMeta {
  seq: number;
  epoch?: number;
  offset?: number;
  more?: boolean;
  promptId?: string;
  greeting?: boolean;
}

export interface ContentBlock {
  type: string;
  text?: string;
  name?: string;
  uri?: string;
  data?: string;
  mimeType?: string;
  resource?: { uri?: string; text?: string };
}

export interface ToolContent {
  type: string;
  content?: ContentBlock;
  path?: string;
  oldText?: string | null;
  newText?: string;
}

export interface PlanEntry {
  content: string;
  status: string;
  priority?: string;
}

/** The update of a `session/update`; each kind has some of these. */
export interface Update {
  sessionUpdate: string;
  messageId?: string;
  content?: ContentBlock | ToolContent[];
  toolCallId?: string;
  title?: string;
  name?: string;
  kind?: string;
  status?: string;
  rawInput?: Json;
  rawOutput?: { status?: string } | null;
  locations?: { path: string; line?: number | null }[];
  entries?: PlanEntry[];
  used?: number;
  size?: number;
  cost?: { amount: number; currency: string } | null;
  currentModeId?: string;
  availableCommands?: Command[];
  configOptions?: ConfigOption[];
  severity?: string;
  summary?: ContentBlock[];
  _meta?: { fastness?: { greeting?: boolean; agent?: { name: string; sessionId: string } } };
}

export interface Command {
  name: string;
  description: string;
}

export interface ConfigOption {
  id: string;
  name: string;
  type?: string;
  currentValue?: string | boolean;
  options?: { value: string; name: string; description?: string | null }[];
}

export type TurnState = "running" | "waiting" | "idle";

/** `_fastness/turn`. */
export interface TurnNotice {
  seq: number;
  turn: number;
  state: TurnState;
  stopReason?: string;
  error?: { kind?: string; message?: string };
  promptId?: string;
  /** The queued prompt that started it. */
  queued?: number;
}

/** A prompt that waits for the running turn; `seq` is its name. */
export interface QueuedPrompt {
  seq: number;
  promptId?: string;
  text: string;
  /** `text` is only the beginning. */
  cut?: boolean;
}

/** `_fastness/queue`. */
export type QueueNotice = { seq: number; offset?: number } & (
  | { state: "queued"; prompt: QueuedPrompt }
  | { state: "dropped"; queued: number; interrupted?: boolean }
);

/** `_meta.fastness` of the answers to `session/new`, `load` and `resume`. */
export interface Attached {
  turn?: { id: number; state: TurnState; promptId?: string };
  queue?: QueuedPrompt[];
  resumeToken?: string;
  resyncFrom?: number;
  cursor?: UpdateMeta;
  damagedAt?: number;
}

export interface PermissionOption {
  optionId: string;
  name: string;
  kind: string;
}

/** A row of `GET /api/v1/sessions`. */
export interface SessionRow {
  id: string;
  cwd: string;
  title: string | null;
  model: string;
  createdAt: string;
  updatedAt: string;
  head: number;
  archived?: boolean;
  turn: { id: number | null; state: TurnState | "queued" };
}

/** An event of the journal, as `GET /api/v1/sessions/{id}/events` gives it. */
export interface JournalEvent {
  seq: number;
  ts: number;
  type: string;
  [field: string]: unknown;
}
