// The list of sessions, kept up to date: by the server's own word where it gives it, else by asking.

import type { Api } from "./api";
import { Refused } from "./api";
import { backoffMs } from "./backoff";
import { Observable } from "./observable";
import type { SessionRow } from "./wire";

const POLL_MS = 3_000;
/** Rows kept; older ones are found by searching in the terminal. */
const ROWS_MAX = 500;

interface Changes {
  sessions?: SessionRow[];
  removed?: string[];
  /** `sessions` is the first page of the list as it is now. */
  snapshot?: boolean;
  nextCursor?: string;
}

export class Sessions extends Observable {
  rows: SessionRow[] = [];
  isLoaded = false;
  failure: string | null = null;
  /** Sessions that left the list since somebody last looked: deleted, or too old for it. */
  private left = new Set<string>();

  private stopped = new AbortController();
  private attempts = 0;

  constructor(private readonly api: Api) {
    super();
  }

  start(): void {
    void this.follow(this.stopped.signal);
  }

  stop(): void {
    this.stopped.abort();
  }

  /** Looks again now, for what this page itself changed. */
  async refresh(): Promise<void> {
    const rows: SessionRow[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.api.sessions(cursor);
      rows.push(...page.sessions);
      cursor = page.nextCursor ?? undefined;
    } while (cursor && rows.length < ROWS_MAX);
    this.take(sorted(rows));
    this.isLoaded = true;
    this.failure = null;
    this.changed();
  }

  /** Whether `id` left the list since this was last asked. */
  hasLeft(id: string): boolean {
    const has = this.left.delete(id);
    this.left.clear();
    return has;
  }

  private take(rows: SessionRow[]): void {
    const kept = new Set(rows.map((row) => row.id));
    for (const { id } of this.rows) if (!kept.has(id)) this.left.add(id);
    this.rows = rows;
  }

  row(id: string): SessionRow | null {
    return this.rows.find((row) => row.id === id) ?? null;
  }

  private async follow(signal: AbortSignal): Promise<void> {
    let canFollow = true;
    while (!signal.aborted) {
      try {
        await seen(signal);
        await this.refresh();
        this.attempts = 0;
        if (canFollow) await this.listen(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status !== 0 && error.status !== 429 && error.status < 500) canFollow = false;
        else this.broke(error instanceof Refused ? error.message : "The connection broke");
      }
      if (!document.hidden) await sleep(this.attempts > 0 ? backoffMs(this.attempts, Math.random()) : POLL_MS, signal);
    }
  }

  /** Hears of changes while somebody looks: browsers open few connections to a server, for all tabs together. */
  private async listen(signal: AbortSignal): Promise<void> {
    const leaving = new AbortController();
    const left = () => {
      if (document.hidden) leaving.abort();
    };
    const stop = () => leaving.abort();
    document.addEventListener("visibilitychange", left);
    signal.addEventListener("abort", stop, { once: true });
    try {
      await this.api.follow("/sessions/changes", leaving.signal, (name, data) => {
        if (name === "sessions") this.told(data as Changes);
      });
    } catch (error) {
      if (!leaving.signal.aborted) throw error;
    } finally {
      document.removeEventListener("visibilitychange", left);
      signal.removeEventListener("abort", stop);
    }
  }

  private told(changes: Changes): void {
    if (changes.snapshot && changes.nextCursor) void this.refresh().catch(() => undefined);
    else this.take(merged(changes.snapshot ? [] : this.rows, changes.sessions ?? [], changes.removed ?? []));
    this.changed();
  }

  private broke(words: string): void {
    this.failure = words;
    this.attempts++;
    this.changed();
  }
}

/** Waits until somebody looks. */
function seen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (!document.hidden) return resolve();
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
  });
}

/** The list after some rows changed and some went away, the newest first. */
export function merged(rows: SessionRow[], changed: SessionRow[], removed: string[]): SessionRow[] {
  const gone = new Set([...removed, ...changed.map((row) => row.id)]);
  return sorted([...rows.filter((row) => !gone.has(row.id)), ...changed]).slice(0, ROWS_MAX);
}

function sorted(rows: SessionRow[]): SessionRow[] {
  return [...rows].sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : a.updatedAt > b.updatedAt ? -1 : a.id < b.id ? -1 : 1));
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
