// REST, with the token of this tab.

import type { JournalEvent, SessionRow } from "./wire";

/** A refusal of the server's, or that it could not be reached (`status` 0). */
export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

export interface Share {
  id: string;
  createdAt: string;
  expiresAt: string;
}

export interface Connection {
  id: string;
  transport: string;
  principal: string;
  sessions: number;
  queuedBytes: number;
  sinceSecs: number;
}

export interface ServerView {
  version: string;
  uptimeSecs: number;
  cpuSecs: number;
  memoryBytes: number;
  connections: Connection[];
  connectionsTotal: number;
  sessions: { loaded: number; running: number; waiting: number };
  queuedBytes: number;
  turnsTotal: number;
  eventsTotal: number;
  modelCallsTotal: number;
  refusalsTotal: number;
}

export interface Info {
  version: string;
  model: string;
  models: string[];
}

/** How long a request may take before the server counts as gone. */
const REQUEST_MS_MAX = 20_000;

export class Api {
  constructor(readonly token: string, private readonly onUnauthorized: () => void) {}

  info(): Promise<Info> {
    return this.call("GET", "/info");
  }

  sessions(cursor?: string): Promise<{ sessions: SessionRow[]; nextCursor: string | null }> {
    return this.call("GET", `/sessions?limit=100${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  }

  session(id: string): Promise<SessionRow> {
    return this.call("GET", `/sessions/${id}`);
  }

  /** Makes a session that works in `cwd`, or where the server was started. */
  create(cwd: string): Promise<SessionRow> {
    return this.call("POST", "/sessions", cwd === "" ? {} : { cwd });
  }

  fork(id: string, at: number): Promise<SessionRow> {
    return this.call("POST", `/sessions/${id}/fork`, { at });
  }

  events(id: string, after: number, limit = 1000): Promise<{ events: JournalEvent[]; head: number; epoch: number }> {
    return this.call("GET", `/sessions/${id}/events?after=${after}&limit=${limit}`);
  }

  files(id: string, query: string): Promise<{ files: { path: string }[] }> {
    return this.call("GET", `/sessions/${id}/files?query=${encodeURIComponent(query)}&limit=20`);
  }

  share(id: string, expiresInSecs: number): Promise<{ token: string; url: string; expiresAt: string }> {
    return this.call("POST", `/sessions/${id}/share`, { expiresInSecs });
  }

  shares(id: string): Promise<{ shares: Share[] }> {
    return this.call("GET", `/sessions/${id}/shares`);
  }

  unshare(id: string, share: string): Promise<void> {
    return this.call("DELETE", `/sessions/${id}/shares/${encodeURIComponent(share)}`);
  }

  server(): Promise<ServerView> {
    return this.call("GET", "/server");
  }

  /** Follows server-sent events until they end; gives each by name and data. */
  async follow(path: string, signal: AbortSignal, tell: (name: string, data: unknown) => void): Promise<void> {
    const response = await this.fetch("GET", path, undefined, signal);
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const records = rest.split("\n\n");
      rest = records.pop() ?? "";
      for (const record of records) {
        const [name, data] = readRecord(record);
        if (data !== "") tell(name, JSON.parse(data));
      }
    }
  }

  private async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.fetch(method, path, body, AbortSignal.timeout(REQUEST_MS_MAX));
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  private async fetch(method: string, path: string, body: unknown, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.token}` };
    const init: RequestInit = { method, headers, signal, cache: "no-store", credentials: "omit", redirect: "error" };
    if (body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    const response = await fetch(`/api/v1${path}`, init).catch(() => {
      throw new Refused(0, "unreachable", "The server does not answer");
    });
    if (response.ok) return response;
    if (response.status === 401) this.onUnauthorized();
    throw await refusal(response);
  }
}

/** Shows a ticket; gives the token of this tab. */
export async function login(ticket: string): Promise<string> {
  const response = await fetch("/api/v1/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ticket }),
    signal: AbortSignal.timeout(REQUEST_MS_MAX),
  }).catch(() => {
    throw new Refused(0, "unreachable", "The server does not answer");
  });
  if (!response.ok) throw await refusal(response);
  return ((await response.json()) as { token: string }).token;
}

async function refusal(response: Response): Promise<Refused> {
  const body = (await response.json().catch(() => ({}))) as { error?: string; message?: string };
  return new Refused(response.status, body.error ?? "error", body.message ?? `The server answered ${response.status}`);
}

function readRecord(record: string): [string, string] {
  let name = "message";
  const data: string[] = [];
  for (const line of record.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return [name, data.join("\n")];
}
