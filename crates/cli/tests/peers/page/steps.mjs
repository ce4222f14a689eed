// What all stories do: log in, start a session, prompt, look.

import assert from "node:assert/strict";

/** Opens the page by an address that `fastness open` made. */
export async function logIn(page, ask) {
  const { url } = await ask("open");
  await page.goto(url);
  await page.getByRole("button", { name: "New" }).waitFor();
  assert.ok(!page.url().includes("ticket"), "the ticket is taken out of the address");
}

export async function start(page) {
  const before = page.url();
  await page.keyboard.press("c");
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForFunction((was) => location.href !== was && document.getElementById("prompt"), before);
}

export const field = (page) => page.getByLabel("Prompt", { exact: true });

export async function prompt(page, words) {
  await field(page).fill(words);
  await field(page).press("Enter");
  // A person sees that it was taken before writing more.
  await page.waitForFunction(() => document.getElementById("prompt")?.value === "");
}

/** All that was said and done, as a reader sees it. */
export const said = (page) => page.getByRole("log").innerText();

export const state = (page, words) => page.locator(".bar .badge").filter({ hasText: words }).waitFor();

/** A permission request that can be answered: it is on the screen for long enough. */
export const asked = (page) => page.locator(".question:not(.settling)").waitFor();

/** Calls REST with the page's own token; gives the status and the answer. */
export const rest = (page, method, path, body) => page.evaluate(async ([method, path, body]) => {
  const headers = { authorization: `Bearer ${sessionStorage.getItem("fastness.token")}`, "content-type": "application/json" };
  const answer = await fetch(`/api/v1${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  return { status: answer.status, body: answer.status === 204 ? null : await answer.json() };
}, [method, path, body]);

export const idOf = (page) => page.evaluate(() => /[0-9a-f]{32}/.exec(location.hash)?.[0]);
