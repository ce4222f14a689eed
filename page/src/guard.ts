// What keeps a click or a key that was meant for something else from answering a request.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** A request can be answered only this long after it appeared or moved: before that, the user has not read it. */
export const SETTLE_MS = 500;
const LOOK_MS = 100;
/** Longest time between two clicks that a system may take for a double click. */
const DOUBLE_CLICK_MS = 1_000;

export interface Guard {
  /** Whether the request has been on the screen, in one place, for long enough. */
  isSettled: () => boolean;
  /** The same, when it was last drawn. */
  isReady: boolean;
  /** For `onPointerDown` and `onKeyDown` of a button: notes how a click began. */
  press: (event: Event) => void;
  /** For `onClick`: calls `act` unless the click began too early or belongs to an earlier one. */
  click: (act: () => void) => (event: MouseEvent) => void;
}

/** Guards the buttons in `place`. */
export function useGuard(place: RefObject<HTMLElement | null>): Guard {
  const [isReady, setReady] = useState(false);
  const shownAt = useRef(performance.now());
  const since = useRef(shownAt.current);
  const where = useRef("");
  /** How the click that is under way began; null if nothing was seen of that, as with assistive technology. */
  const began = useRef<boolean | null>(null);
  const isSettled = () => {
    const box = place.current?.getBoundingClientRect();
    const here = box ? [box.left, box.top, box.width, box.height].map(Math.round).join() : "";
    const now = performance.now();
    if (here !== where.current || document.hidden) {
      where.current = here;
      since.current = now;
    }
    const isNow = now - since.current >= SETTLE_MS;
    setReady(isNow);
    return isNow;
  };
  useLayoutEffect(() => {
    isSettled();
    const timer = setInterval(isSettled, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const press = (event: Event) => {
    const isKey = event instanceof KeyboardEvent;
    if (isKey && event.key !== "Enter" && event.key !== " ") return;
    began.current = isSettled() && !(isKey && (event.repeat || isIme(event)));
    if (isKey && !began.current) event.preventDefault();
  };
  const click = (act: () => void) => (event: MouseEvent) => {
    const isMeant = began.current ?? true;
    began.current = null;
    const isSecond = event.detail > 1 && performance.now() - shownAt.current < DOUBLE_CLICK_MS;
    if (isMeant && !isSecond && isSettled()) act();
  };
  return { isSettled, isReady, press, click };
}

/** Whether a key belongs to an input method that is composing. Some browsers tell only by the key code. */
export function isIme(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Whether keys go into a field, and so are no commands. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
    || (target instanceof HTMLInputElement && !/^(checkbox|radio|button|range)$/.test(target.type));
}

/** Whether a key was pressed on nothing in particular: the page or the conversation. */
export function isNowhere(target: EventTarget | null): boolean {
  return target === document.body || target === document.documentElement || (target instanceof HTMLElement && target.matches(".scroller"));
}

/** The field for prompts, if it is on the screen. */
export function promptField(): HTMLTextAreaElement | null {
  const field = document.getElementById("prompt");
  return field instanceof HTMLTextAreaElement ? field : null;
}

/** Whether a prompt is being written. */
export function isWriting(): boolean {
  return (promptField()?.value ?? "") !== "";
}
