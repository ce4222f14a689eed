// Where in the page one is; it stands in the fragment, which no server sees.

export type Route =
  | { kind: "list" }
  | { kind: "server" }
  | { kind: "session"; id: string; isTimeline: boolean }
  /** An address of a session that no session has. */
  | { kind: "unknown" };

export function readRoute(hash: string): Route {
  const session = /^#\/s\/([0-9a-f]{32})(\/timeline)?$/.exec(hash);
  if (session) return { kind: "session", id: session[1] ?? "", isTimeline: session[2] !== undefined };
  if (hash.startsWith("#/s/")) return { kind: "unknown" };
  return { kind: hash === "#/server" ? "server" : "list" };
}
