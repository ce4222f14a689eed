// What people do with the page. Each story is one browser; what it finds wrong it throws.

import assert from "node:assert/strict";
import { bench } from "./bench.mjs";
import { escape, keys, places, questions, queue } from "./safety.mjs";
import { asked, logIn, prompt, said, start, state } from "./steps.mjs";

/** Waits until two windows show the same conversation. */
async function same(one, other) {
  for (let tries = 0; ; tries++) {
    const [here, there] = await Promise.all([said(one), said(other)]);
    if (here === there) return;
    if (tries > 50) assert.equal(there, here);
    await other.waitForTimeout(100);
  }
}

/** A day's work: prompt, watch, allow, reject, answer, cancel, with a second pair of eyes. */
async function work({ plan, ask, person, accessible, picture }) {
  const page = await person();
  await page.goto(plan.url);
  await page.getByText("You are not logged in here.").waitFor();
  assert.ok((await page.innerText("main")).includes("fastness open"));
  await accessible(page, "logged out");

  await logIn(page, ask);
  await start(page);
  await accessible(page, "an empty session");
  await prompt(page, plan.first);
  await page.getByText("Permission needed").waitFor();
  await state(page, "needs you");
  await page.getByText("second line changed").waitFor();
  await accessible(page, "a permission");
  await picture(page, "permission-light");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "a permission in the dark");
  await picture(page, "permission-dark");
  await page.emulateMedia({ colorScheme: "light" });
  assert.equal((await ask("file", { name: "notes.txt" })).text, "first line\nsecond line\n", "nothing happens before it is allowed");
  // Nothing was written in the prompt, so the keys are the question's.
  await asked(page);
  await page.keyboard.press("y");
  await page.keyboard.press("Enter");

  await page.getByRole("heading", { name: "Permission needed" }).locator("..").locator("..").getByText(plan.rejected).first().waitFor();
  assert.match((await ask("file", { name: "notes.txt" })).text, /second line changed/);
  await page.getByLabel("Reason, told to the agent").fill("keep it");
  await asked(page);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByText("I leave it then.").waitFor();
  await state(page, "idle");
  assert.match((await ask("file", { name: "kept.txt" })).text, /keep me/, "what is rejected does not happen");
  assert.match(await said(page), /denied/);

  // Somebody else looks on from here: the same person in another browser.
  const other = await person({ colorScheme: "dark" });
  await logIn(other, ask);
  await other.getByRole("link", { name: plan.first }).click();
  await other.getByText("I leave it then.").waitFor();
  await same(page, other);
  for (const [window, name] of [[page, "light"], [other, "dark"]]) {
    await window.getByRole("button", { name: "thought" }).click();
    await window.getByRole("button", { name: /^plan/ }).click();
    await window.getByText("I read them first.").waitFor();
    await window.locator(".scroller").evaluate((scroller) => { scroller.scrollTop = 0; });
    await picture(window, `conversation-${name}`);
    await window.getByRole("button", { name: "thought" }).click();
    await window.getByRole("button", { name: /^plan/ }).click();
  }

  await complete(page);
  await prompt(page, "count");
  await page.getByText("tick tick").waitFor();
  await state(page, "working");
  await other.getByText("tick tick").waitFor();
  await page.getByText("the end of it").waitFor();
  await state(page, "idle");
  await other.getByText("the end of it").waitFor();
  assert.equal((await said(page)).match(/tick/g).length, plan.ticks, "each word is there once");
  await same(page, other);

  await prompt(page, "go on for ever");
  await other.getByText("tock tock").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("Cancelled").waitFor();
  await other.getByText("Cancelled").waitFor();

  await prompt(page, "ask me");
  await page.getByLabel("green").waitFor();
  await other.getByLabel("green").waitFor();
  await accessible(page, "a question");
  await page.getByLabel("green").check();
  await asked(page);
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByText(/You said.*green/s).waitFor();
  await other.getByText("The agent asks").waitFor({ state: "detached" });
  await same(page, other);
  await accessible(page, "a conversation");
  await accessible(other, "a conversation in the dark");

  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(page, "help");
  await page.keyboard.press("Escape");
  await travel({ page, other, plan, accessible, picture });
  await list({ page, plan, accessible, picture });
  await numbers({ page, plan, accessible, picture });

  // On a phone there is one thing at a time, and nothing to scroll sideways.
  await page.setViewportSize({ width: 390, height: 800 });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} px too wide for a phone`);
  await page.getByRole("link", { name: "Back to the list" }).click();
  await page.getByRole("navigation", { name: "Sessions" }).waitFor();
  await accessible(page, "the list on a phone");
}

/** `@` offers the files of the session, and what was chosen goes along as a link. */
async function complete(page) {
  const field = page.getByLabel("Prompt", { exact: true });
  await field.fill("");
  await field.pressSequentially("look at @note");
  await page.getByRole("option", { name: "notes.txt" }).waitFor();
  await page.keyboard.press("Enter");
  assert.equal(await field.inputValue(), "look at @notes.txt ");
  await field.fill("");
  // What is not there is not offered.
  await field.pressSequentially("@zzzz");
  await page.getByRole("listbox").waitFor({ state: "detached" });
  await field.fill("");
}

/** The list, with several sessions in it, each as it stands; the one that waits is found by its state. */
async function list({ page, plan, accessible, picture }) {
  const source = page.url();
  await page.evaluate(async (titles) => {
    const authorization = `Bearer ${sessionStorage.getItem("fastness.token")}`;
    const headers = { authorization, "content-type": "application/json" };
    for (const title of titles) await fetch("/api/v1/sessions", { method: "POST", headers, body: JSON.stringify({ title }) });
  }, ["Why is the build slow?", "Release notes for 0.9", "Rename the config keys"]);
  await start(page);
  await prompt(page, "Tidy the notes");
  await page.getByText("Permission needed").waitFor();
  await page.goto(`${plan.url}/#/`);
  const waiting = page.getByRole("link", { name: "Tidy the notes" });
  await waiting.getByText("needs you").waitFor();
  await page.getByRole("link", { name: "Release notes" }).waitFor();
  await accessible(page, "the list");
  await picture(page, "list-light");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "the list in the dark");
  await picture(page, "list-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await asked(page);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.goto(source);
  await page.getByText("Cancelled").waitFor();
}

/** The server's own view: this window and the other are there, and the charts move. */
async function numbers({ page, plan, accessible, picture }) {
  const source = page.url();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.getByRole("img", { name: /^Connections: now [1-9]/ }).waitFor();
  await page.waitForFunction(() => document.querySelector("polyline")?.getAttribute("points").includes(" "));
  assert.ok((await page.getByRole("row").count()) >= 2, "a connection is listed");
  await accessible(page, "the server");
  // A chart of a few seconds is no picture.
  if (plan.pictures) await page.waitForFunction(() => document.querySelector("polyline").getAttribute("points").split(" ").length > 15, null, { timeout: 120_000 });
  await picture(page, "server-light");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "the server in the dark");
  await picture(page, "server-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(source);
  await page.getByText("Cancelled").waitFor();
}

/** Time travel, copies and undoing. */
async function travel({ page, other, plan, accessible, picture }) {
  await page.keyboard.press("t");
  const slider = page.getByRole("slider", { name: "Event" });
  await slider.waitFor();
  await page.getByText(/You said.*green/s).waitFor();
  await slider.fill("12");
  await page.getByText("tick tick").waitFor({ state: "detached" });
  assert.ok((await said(page)).includes(plan.first), "the first prompt is there at event 12");
  await accessible(page, "the timeline");
  await picture(page, "timeline-light");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "timeline-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByRole("link", { name: "Timeline" }).click();

  // Undo takes the last turn away for everybody and gives the words back.
  await page.getByText("ask me").last().hover();
  await page.getByRole("button", { name: "Undo" }).last().click();
  await other.getByText("ask me").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.getElementById("prompt").value === "ask me");
  await same(page, other);

  // A copy from the answer to "count" has it, and not what came after.
  const source = page.url();
  const answer = page.locator("article.agent").filter({ hasText: "the end of it" });
  await answer.hover();
  await answer.getByRole("button", { name: "Fork after" }).click();
  await page.waitForFunction((before) => location.href !== before, source);
  await page.getByText("the end of it").waitFor();
  assert.ok(!(await said(page)).includes("tock"));
  await page.goto(source);
  await page.getByText("Cancelled").waitFor();
}

/** The server dies in the middle of a word and comes back. */
async function restart({ plan, ask, person }) {
  const [page, other] = [await person(), await person()];
  await logIn(page, ask);
  await start(page);
  await prompt(page, "count");
  await page.getByText("tick tick tick").waitFor();
  await logIn(other, ask);
  await other.getByRole("link", { name: "count" }).click();
  await other.getByText("tick tick tick").waitFor();
  await ask("kill");
  await page.getByText("Reconnecting").waitFor();
  await other.getByText("Reconnecting").waitFor();
  const before = (await said(page)).match(/tick/g).length;
  // What is written meanwhile is sent when there is somebody to send it to.
  await prompt(page, "again");
  await page.getByText("Sending…").waitFor();
  await ask("start");
  await page.getByText("Reconnecting").waitFor({ state: "detached" });
  await page.getByText("Interrupted").waitFor();
  await page.getByText("the end of it").waitFor();
  await other.getByText("the end of it").waitFor();
  await same(page, other);
  const { text } = await ask("journal");
  const shown = (await page.locator("article.agent").allInnerTexts()).map((words) => words.match(/tick/g).length);
  assert.deepEqual(shown, text.map((words) => words.match(/tick/g).length), "the page shows the journal, no word more or less");
  assert.ok(shown[0] >= before, `${shown[0]} words are left of ${before} that were seen`);
  assert.equal(shown[1], plan.ticks);
  assert.equal(await page.getByText("again", { exact: true }).count(), 1);
  assert.equal(await page.getByText("count", { exact: true }).and(page.locator("p.said")).count(), 1);
}

/** A share link shows one session and moves nothing; what a model says stays words. */
async function hostile({ plan, ask, person, accessible }) {
  const page = await person();
  await logIn(page, ask);
  await start(page);
  await prompt(page, plan.first);
  await page.getByText("Permission needed").waitFor();
  await accessible(page, "a hostile permission");
  await harmless(page);

  const guest = await person();
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Make a link" }).click();
  const url = await page.getByLabel("Share link").inputValue();
  await page.getByRole("button", { name: "End it" }).waitFor();
  await accessible(page, "sharing");
  await page.keyboard.press("Escape");
  await guest.goto(url);
  await guest.getByText("You are watching.").waitFor();
  await guest.getByText("waits for an answer of its owner").waitFor();
  assert.ok(!guest.url().includes("share="), "the token is taken out of the address");
  assert.equal(await guest.getByLabel("Prompt", { exact: true }).count(), 0);
  assert.equal(await guest.getByRole("button", { name: "Allow once" }).count(), 0);
  for (const key of ["y", "n", "c", "Escape"]) await guest.keyboard.press(key);
  const refused = await guest.evaluate(async () => {
    const token = sessionStorage.getItem("fastness.token");
    const id = location.hash.split("/s/")[1];
    const call = (path, body) => fetch(`/api/v1${path}`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: JSON.stringify(body) });
    const answers = await Promise.all([call(`/sessions/${id}/prompts`, { prompt: "x" }), call(`/sessions/${id}/fork`, { at: 1 }), call("/sessions", {})]);
    return answers.map((answer) => answer.status);
  });
  assert.deepEqual(refused, [403, 403, 403]);
  await accessible(guest, "a shared session");

  await asked(page);
  await page.locator(".bar h1").click();
  await page.keyboard.press("y");
  await page.keyboard.press("Enter");
  await page.getByText("It is over.").waitFor();
  await guest.getByText("It is over.").waitFor();
  const folded = page.locator(".tool-head[aria-expanded=false]");
  while ((await folded.count()) > 0) await folded.first().click();
  await page.getByText("onerror").first().waitFor();
  await harmless(page);
  await harmless(guest);
  // A link that is ended shows nothing more.
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "End it" }).click();
  await page.getByRole("button", { name: "End it" }).waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await guest.getByText("This share link has ended.").waitFor();
  await page.keyboard.press("t");
  await page.getByRole("slider", { name: "Event" }).waitFor();
  await harmless(page);

}

/** Nothing that a model, a file or a tool named became more than text. */
async function harmless(page) {
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll("#root img, #root script, #root iframe, #root object, #root style, #root form[action]").length,
    links: [...document.querySelectorAll("#root a")].map((link) => link.getAttribute("href")).filter((href) => !/^(#|https?:)/.test(href)),
    handlers: [...document.querySelectorAll("#root *")].filter((element) => element.getAttributeNames().some((name) => name.startsWith("on"))).length,
    ran: window.pwned,
  }));
  assert.deepEqual(found, { elements: 0, links: [], handlers: 0, ran: undefined });
}

export const stories = { work, restart, hostile, bench, keys, escape, queue, questions, places };
