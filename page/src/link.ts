// One session over one WebSocket: comes back by itself, and goes on where the conversation stands.
// Leaving a session means closing its socket; the session itself does not mind.

import type { Api } from "./api";
import { backoffMs } from "./backoff";
import { Conversation, type Pending } from "./conversation";
import { asOf, tell } from "./history";
import { Observable } from "./observable";
import type { Attached, ConfigOption, ContentBlock, JournalEvent, Json, PermissionOption, QueueNotice, ToolContent, TurnNotice, Update, UpdateMeta } from "./wire";

export type LinkState =
  | { kind: "connecting" }
  | { kind: "loading" }
  | { kind: "live" }
  | { kind: "waiting"; attempt: number; until: number; cause: string }
  | { kind: "gone" }
  | { kind: "closed" };

/** A field of a form, from its JSON schema. */
export interface FieldSchema {
  type?: string;
  title?: string;
  description?: string;
  enum?: string[];
  oneOf?: { const: string; title?: string }[];
  items?: { enum?: string[]; anyOf?: { const: string; title?: string }[] };
  default?: Json;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
}

export interface FormSchema {
  properties: Record<string, FieldSchema>;
  required?: string[];
}

/** Something that waits for a person. */
export type Question =
  | {
      kind: "permission";
      id: string;
      callId: string;
      title: string;
      isQuestion: boolean;
      options: PermissionOption[];
      content: ToolContent[];
      agent: { name: string; tool?: string; input?: Json } | null;
    }
  | { kind: "form"; id: string; callId: string; message: string; schema: FormSchema };

type Id = number | string;

interface Message {
  id?: Id;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { code: number; message: string; data?: { kind?: string } };
}

export class RpcFailure extends Error {
  constructor(readonly code: number, message: string) {
    super(message);
  }
}

interface Waiting {
  resolve: (result: Record<string, unknown>) => void;
  reject: (error: Error) => void;
}

/** Longest wait for an answer that does not depend on a model. */
const ANSWER_MS_MAX = 30_000;
/** A socket that is quiet this long is asked whether it still lives: browsers show no pings. */
const QUIET_MS = 25_000;
const PULSE_MS_MAX = 15_000;
const NOT_FOUND = -32002;
/** Events at the end of the journal that are read before anything is shown; the rest is read when it is scrolled to. */
const TAIL_EVENTS = 300;
const EARLIER_EVENTS = 1_000;

export class SessionLink extends Observable {
  readonly conversation = new Conversation();
  state: LinkState = { kind: "connecting" };
  questions: Question[] = [];

  private socket: WebSocket | null = null;
  private waiting = new Map<Id, Waiting>();
  private lastId = 0;
  private attempts = 0;
  private timer = 0;
  private pulse = 0;
  private lastHeard = 0;
  /** Whether the conversation has a cursor to go on from. */
  private hasLoaded = false;
  /** The end of the journal on its way, and what was read of it and before it. */
  private tail: Promise<boolean> | null = null;
  private journal: JournalEvent[] = [];
  private isReading = false;
  /** Prompts of ours without an answer; sent again when the connection is. */
  private prompts = new Map<string, ContentBlock[]>();

  constructor(private readonly api: Api, readonly id: string, readonly cwd: string, private readonly head: number) {
    super();
  }

  /** Connects, unless it is connected. */
  open(): void {
    if (this.socket || this.state.kind === "gone") return;
    clearTimeout(this.timer);
    this.set(this.attempts === 0 ? { kind: "connecting" } : this.state);
    if (!this.hasLoaded) this.tail ??= this.readTail();
    const url = `${location.origin.replace(/^http/, "ws")}/acp`;
    const socket = new WebSocket(url, ["fastness.v1", `bearer.${this.api.token}`]);
    this.socket = socket;
    const isOurs = () => this.socket === socket;
    socket.onopen = () => {
      if (isOurs()) void this.enter(socket);
    };
    socket.onmessage = (message) => {
      if (isOurs() && typeof message.data === "string") this.receive(message.data);
    };
    socket.onclose = (event) => {
      if (isOurs()) this.lose(closeCause(event.code));
    };
  }

  /** Leaves the session. What was told stays, and `open` goes on from there. */
  close(): void {
    clearTimeout(this.timer);
    this.drop();
    this.attempts = 0;
    this.set({ kind: "closed" });
  }

  /** Tries now what would be tried later. */
  retry(): void {
    if (this.state.kind === "waiting") this.open();
  }

  /** Whether there is more before what is shown. */
  get hasEarlier(): boolean {
    return (this.journal[0]?.seq ?? 1) > 1;
  }

  /** Reads what comes before what is shown. */
  async readEarlier(): Promise<void> {
    const first = this.journal[0]?.seq ?? 1;
    if (this.isReading || first <= 1) return;
    this.isReading = true;
    try {
      const after = Math.max(0, first - 1 - EARLIER_EVENTS);
      const page = await this.api.events(this.id, after, first - 1 - after);
      this.journal = [...page.events, ...this.journal];
      // All of it is told anew: something in it may have been undone later.
      const { items } = asOf(this.journal, Infinity);
      this.conversation.prepend(items.filter((item) => item.seq < first));
      this.changed();
    } catch {
      // It is asked for again when somebody scrolls again.
    } finally {
      this.isReading = false;
    }
  }

  get isLive(): boolean {
    return this.state.kind === "live";
  }

  prompt(text: string, links: ContentBlock[]): void {
    const promptId = randomId();
    const blocks: ContentBlock[] = [{ type: "text", text }, ...links];
    this.conversation.prompted(promptId, text, blocks);
    this.prompts.set(promptId, blocks);
    if (this.isLive) this.sendPrompt(promptId, blocks);
    this.changed();
  }

  cancel(): void {
    this.send({ method: "session/cancel", params: { sessionId: this.id } });
  }

  dismiss(pending: Pending): void {
    this.conversation.dismissed(pending);
    this.changed();
  }

  /** Undoes what came after `to`. */
  async rewind(to: number): Promise<void> {
    await this.request("_fastness/session/rewind", { sessionId: this.id, to });
  }

  async setOption(configId: string, value: string): Promise<void> {
    const answer = await this.request("session/set_config_option", { sessionId: this.id, configId, value });
    if (Array.isArray(answer.configOptions)) this.conversation.options = answer.configOptions as ConfigOption[];
    this.changed();
  }

  answerPermission(question: Question, optionId: string, reason: string): void {
    const meta = reason.trim() ? { _meta: { fastness: { reason: reason.trim() } } } : {};
    this.answer(question, { outcome: { outcome: "selected", optionId }, ...meta });
  }

  answerForm(question: Question, content: Record<string, Json> | null): void {
    this.answer(question, content ? { action: "accept", content } : { action: "decline" });
  }

  private answer(question: Question, result: Record<string, unknown>): void {
    this.send({ id: question.id, result });
    this.withdraw(question.id);
  }

  private withdraw(id: Id): void {
    this.questions = this.questions.filter((question) => question.id !== id);
    this.changed();
  }

  private async enter(socket: WebSocket): Promise<void> {
    try {
      await this.request("initialize", {
        protocolVersion: 1,
        clientInfo: { name: "fastness-page", title: "Fastness page", version: "1" },
        clientCapabilities: {
          fs: { readTextFile: false, writeTextFile: false },
          terminal: false,
          session: { notices: {}, compaction: {} },
          elicitation: { form: {} },
          _meta: { fastness: { turns: true, queue: true } },
        },
      });
      const entrance = { sessionId: this.id, cwd: this.cwd, mcpServers: [] };
      const canResume = this.hasLoaded || (await this.tail);
      if (this.socket !== socket) return;
      const resume = () => this.request("session/resume", { ...entrance, _meta: { fastness: this.conversation.resumeMeta() } });
      const answer = canResume ? await resume() : await this.load(entrance);
      if (this.socket !== socket) return;
      this.entered(answer);
    } catch (error) {
      if (this.socket !== socket) return;
      const isGone = error instanceof RpcFailure && error.code === NOT_FOUND;
      if (isGone) this.gone();
      else this.lose(error instanceof Error ? error.message : "It could not be entered");
    }
  }

  /** Has everything told from the beginning, where the journal could not be read. */
  private load(entrance: Record<string, unknown>): Promise<Record<string, unknown>> {
    this.conversation.reset();
    this.set({ kind: "loading" });
    return this.request("session/load", entrance, 10 * ANSWER_MS_MAX);
  }

  /** Shows the end of the journal, long before all of a long session could have been told. */
  private async readTail(): Promise<boolean> {
    try {
      let after = Math.max(0, this.head - TAIL_EVENTS);
      for (;;) {
        const page = await this.api.events(this.id, after);
        this.journal.push(...page.events);
        const last = page.events.at(-1)?.seq ?? page.head;
        if (last >= page.head) {
          for (const event of await this.droppedBefore()) tell(this.conversation, event);
          for (const event of this.journal) tell(this.conversation, event);
          this.conversation.standsAt(last, page.epoch);
          this.hasLoaded = true;
          this.changed();
          return true;
        }
        after = last;
      }
    } catch {
      this.journal = [];
      this.tail = null;
      return false;
    }
  }

  /** Prompts that were queued before the part that was read and dropped in it: a page that says so must know their text. */
  private async droppedBefore(): Promise<JournalEvent[]> {
    const first = this.journal[0]?.seq ?? 1;
    const queued = this.journal.filter((event) => event.type === "prompt.dropped" && Number(event.queued) < first).map((event) => Number(event.queued));
    const pages = await Promise.all(queued.map((seq) => this.api.events(this.id, seq - 1, 1)));
    return pages.flatMap((page) => page.events);
  }

  private entered(answer: Record<string, unknown>): void {
    const meta = (answer._meta as { fastness?: Attached } | undefined)?.fastness ?? {};
    this.conversation.attached(meta);
    if (Array.isArray(answer.configOptions)) this.conversation.options = answer.configOptions as ConfigOption[];
    const modes = answer.modes as { currentModeId?: string } | null | undefined;
    if (modes?.currentModeId) this.conversation.mode = modes.currentModeId;
    this.hasLoaded = true;
    this.attempts = 0;
    this.set({ kind: "live" });
    this.pulse = window.setInterval(() => this.beat(), QUIET_MS / 5);
    for (const [promptId, blocks] of this.prompts) this.sendPrompt(promptId, blocks);
  }

  private sendPrompt(promptId: string, blocks: ContentBlock[]): void {
    const params = { sessionId: this.id, prompt: blocks, _meta: { fastness: { promptId, queue: true } } };
    const ended = (failure: string | null) => {
      this.prompts.delete(promptId);
      this.conversation.answered(promptId, failure);
      this.changed();
    };
    this.request("session/prompt", params, Infinity).then(
      () => ended(null),
      (error: Error) => {
        // A connection that broke says nothing about the prompt: it is sent again.
        if (error instanceof RpcFailure) ended(error.message);
      },
    );
  }

  private receive(text: string): void {
    this.lastHeard = performance.now();
    let message: Message;
    try {
      message = JSON.parse(text) as Message;
    } catch {
      return;
    }
    if (message.method === undefined) this.settle(message);
    else if (message.id !== undefined) this.asked(message.id, message.method, message.params ?? {});
    else this.told(message.method, message.params ?? {});
  }

  private settle(message: Message): void {
    if (message.id === undefined) return;
    const waiting = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) waiting?.reject(new RpcFailure(message.error.code, message.error.message));
    else waiting?.resolve(message.result ?? {});
  }

  private told(method: string, params: Record<string, unknown>): void {
    if (method === "$/cancel_request") this.withdraw(params.requestId as Id);
    if (params.sessionId !== this.id) return;
    if (method === "session/update") {
      const meta = (params._meta as { fastness?: UpdateMeta } | undefined)?.fastness;
      this.conversation.update(params.update as Update, meta);
    } else if (method === "_fastness/turn") {
      this.conversation.turnTold(params as unknown as TurnNotice);
    } else if (method === "_fastness/queue") {
      this.conversation.queueTold(params as unknown as QueueNotice);
    } else if (method === "_fastness/rewound") {
      this.conversation.rewound(params.to as number, params.seq as number);
    }
    this.changed();
  }

  private asked(id: Id, method: string, params: Record<string, unknown>): void {
    const question = method === "session/request_permission" ? permission(id, params)
      : method === "elicitation/create" ? form(id, params)
      : null;
    if (!question) {
      this.send({ id, error: { code: -32601, message: "this page cannot do that" } });
      return;
    }
    this.questions = [...this.questions, question];
    this.changed();
  }

  private request(method: string, params: Record<string, unknown>, msMax = ANSWER_MS_MAX): Promise<Record<string, unknown>> {
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      const timer = Number.isFinite(msMax)
        ? setTimeout(() => {
            this.waiting.delete(id);
            reject(new Error(`No answer to ${method} in ${msMax / 1000} s`));
          }, msMax)
        : 0;
      const settled = <T>(then: (value: T) => void) => (value: T) => {
        clearTimeout(timer);
        then(value);
      };
      this.waiting.set(id, { resolve: settled(resolve), reject: settled(reject) });
      this.send({ id, method, params });
    });
  }

  private send(message: Message): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  /** Asks something cheap when nothing was heard for long: any answer, also a refusal, is a sign of life. */
  private beat(): void {
    if (performance.now() - this.lastHeard < QUIET_MS) return;
    this.lastHeard = performance.now();
    const socket = this.socket;
    this.request("_fastness/pulse", {}, PULSE_MS_MAX).catch((error: Error) => {
      if (!(error instanceof RpcFailure) && socket !== null && this.socket === socket) this.lose("The server went quiet");
    });
  }

  /** The session was deleted, or was never ours to see. */
  gone(): void {
    clearTimeout(this.timer);
    this.drop();
    this.set({ kind: "gone" });
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    clearInterval(this.pulse);
    socket?.close();
    this.conversation.lost();
    this.questions = [];
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of waiting) reject(new Error("The connection broke"));
  }

  private lose(cause: string): void {
    this.drop();
    this.attempts++;
    const wait = backoffMs(this.attempts, Math.random());
    this.set({ kind: "waiting", attempt: this.attempts, until: Date.now() + wait, cause });
    this.timer = window.setTimeout(() => this.open(), wait);
    // A socket that is refused does not say why; a request does. If the login has ended, it tells the page.
    this.api.info().catch(() => undefined);
  }

  private set(state: LinkState): void {
    this.state = state;
    this.changed();
  }
}

function closeCause(code: number): string {
  switch (code) {
    case 1001: return "The server is shutting down";
    case 1013: return "The server has too many clients";
    case 4401: return "The login was revoked";
    default: return "The connection broke";
  }
}

function permission(id: Id, params: Record<string, unknown>): Question {
  const call = (params.toolCall ?? {}) as {
    toolCallId?: string; title?: string; content?: ToolContent[];
    _meta?: { fastness?: { question?: boolean; agent?: { name: string; tool?: string; input?: Json } } };
  };
  const ours = call._meta?.fastness;
  return {
    kind: "permission",
    id: String(id),
    callId: call.toolCallId ?? "",
    title: call.title ?? "A tool wants to run",
    isQuestion: ours?.question === true,
    options: (params.options ?? []) as PermissionOption[],
    content: call.content ?? [],
    agent: ours?.agent ?? null,
  };
}

function form(id: Id, params: Record<string, unknown>): Question {
  const schema = (params.requestedSchema ?? {}) as Partial<FormSchema>;
  return {
    kind: "form",
    id: String(id),
    callId: String(params.toolCallId ?? ""),
    message: String(params.message ?? ""),
    schema: { properties: schema.properties ?? {}, required: schema.required ?? [] },
  };
}

/** 128 random bits, also where the page is not served over TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
