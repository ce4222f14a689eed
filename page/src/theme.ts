// Light, dark, or as the system is.

export type Theme = "system" | "light" | "dark";

const KEY = "fastness.theme";
const ORDER: Theme[] = ["system", "light", "dark"];

export function theme(): Theme {
  const stored = localStorage.getItem(KEY);
  return ORDER.find((known) => known === stored) ?? "system";
}

export function apply(chosen: Theme): void {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

/** Goes on to the next one, and keeps it. */
export function next(): Theme {
  const chosen = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length] ?? "system";
  localStorage.setItem(KEY, chosen);
  apply(chosen);
  return chosen;
}
