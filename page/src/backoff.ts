// How long to wait before the next try to reach the server.

const FIRST_MS = 500;
const LONGEST_MS = 15_000;

/** Doubles up to a bound; `random` (0 to 1) spreads pages that lost the same server. */
export function backoffMs(attempt: number, random: number): number {
  const whole = Math.min(FIRST_MS * 2 ** Math.min(attempt - 1, 16), LONGEST_MS);
  return Math.round(whole * (0.5 + random / 2));
}
