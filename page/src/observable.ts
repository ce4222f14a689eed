// Things that change, and those who want to know; told at most once per frame.

import { useEffect, useReducer } from "preact/hooks";

/** How often a page that nobody sees is brought up to date. */
const HIDDEN_MS = 250;

export class Observable {
  private listeners = new Set<() => void>();
  private isScheduled = false;

  observe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Says that something changed. However often that is within a frame, listeners hear it once. */
  protected changed(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    const tell = () => {
      this.isScheduled = false;
      for (const listener of [...this.listeners]) listener();
    };
    if (document.hidden) setTimeout(tell, HIDDEN_MS);
    else requestAnimationFrame(tell);
  }
}

/** Renders again whenever `observable` changes. */
export function useObservable(observable: Observable | null): void {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => observable?.observe(() => again(undefined)), [observable]);
}
