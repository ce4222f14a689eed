// Who this tab is: a ticket becomes a token, a share link is one; it lives as long as the tab.

import { login } from "./api";

export interface Credential {
  token: string;
  /** A share link: one session, to be looked at. */
  isShare: boolean;
}

const KEY = "fastness.token";
const SHARE_KEY = "fastness.share";

/** Takes a ticket or share link out of the address, so that neither stays in it nor in the history. */
export function takeFragment(): { ticket?: string; share?: string } {
  const match = /^#(ticket|share)=([\w-]+)$/.exec(location.hash);
  if (!match) return {};
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  return match[1] === "ticket" ? { ticket: match[2] ?? "" } : { share: match[2] ?? "" };
}

/** Logs in by what the address held, or as this tab did before. */
export async function enter(found: { ticket?: string; share?: string }): Promise<Credential | null> {
  if (found.share !== undefined) return keep(found.share, true);
  if (found.ticket !== undefined) return keep(await login(found.ticket), false);
  const token = sessionStorage.getItem(KEY);
  return token === null ? null : { token, isShare: sessionStorage.getItem(SHARE_KEY) === "true" };
}

export function forget(): void {
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(SHARE_KEY);
}

function keep(token: string, isShare: boolean): Credential {
  sessionStorage.setItem(KEY, token);
  sessionStorage.setItem(SHARE_KEY, String(isShare));
  return { token, isShare };
}
