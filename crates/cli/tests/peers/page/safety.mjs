// What must not happen by accident: a key or a click that was meant for something else answers nothing, cancels
// nothing and sends nothing; and the page tells what became of everything that was written.

import assert from "node:assert/strict";
import { asked, field, idOf, logIn, prompt, rest, said, start, state } from "./steps.mjs";

const hasFile = async (ask, name) => (await ask("exists", { name })).exists;

/** Typing, pasting, early and double clicks, keys for something else: none approves. A chosen option and Enter does. */
export async function keys({ ask, person, accessible, picture }) {
  const page = await person();
  await logIn(page, ask);
  await start(page);
  await prompt(page, "write one");
  await page.getByText("Permission needed").waitFor();
  // The prompt was empty and had the focus. Slow typing goes there, letter by letter.
  await page.keyboard.type("Wait a", { delay: 650 });
  assert.equal(await field(page).inputValue(), "Wait a");
  assert.equal(await page.getByText("Permission needed").count(), 1, "typing leaves the request open");
  // With something written, letters outside of the field choose nothing either.
  await page.locator(".bar h1").click();
  for (const key of ["a", "y", "Enter", " "]) await page.keyboard.press(key, { delay: 50 });
  await field(page).fill("");
  // Words of nothing but such letters, typed where there is no field.
  await page.locator(".bar h1").click();
  await page.keyboard.type("any", { delay: 650 });
  await page.keyboard.press("Enter");
  await page.keyboard.press("Space");
  await field(page).fill("");
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData("text/plain", "y\n");
    for (const target of [document.body, document.querySelector(".question")]) {
      target.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
    }
  });
  assert.equal(await page.getByText("Permission needed").count(), 1);
  assert.equal(await hasFile(ask, "one.txt"), false, "nothing of this approved it");

  // A letter only chooses. Another one takes it back, and Enter confirms only what is chosen.
  await page.locator(".question h2").click();
  await page.keyboard.press("y");
  await page.locator(".options .chosen").filter({ hasText: "Allow once" }).waitFor();
  assert.equal(await hasFile(ask, "one.txt"), false, "a letter alone does not approve");
  await accessible(page, "a chosen option");
  await picture(page, "chosen");
  await page.keyboard.press("ArrowRight");
  await page.locator(".options .chosen").filter({ hasNotText: "Allow once" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".options .chosen").waitFor({ state: "detached" });
  await page.keyboard.press("y");

  // The next request is clicked, and its button has the focus, in the very moment it appears.
  await page.evaluate(() => {
    window.early = 0;
    const seen = new Set([document.querySelector(".question")]);
    new MutationObserver(() => {
      const request = document.querySelector(".question");
      if (!request || seen.has(request)) return;
      seen.add(request);
      const button = request.querySelector("button.primary");
      button.focus();
      for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup"]) button.dispatchEvent(new PointerEvent(type, { bubbles: true }));
      button.dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 2 }));
      window.early++;
    }).observe(document.body, { childList: true, subtree: true });
  });
  await page.keyboard.down("Enter");
  await page.waitForFunction(() => window.early === 1);
  // Held down, the key repeats.
  for (let repeat = 0; repeat < 5; repeat++) await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  assert.equal(await hasFile(ask, "one.txt"), true, "what was chosen and confirmed is done");
  await asked(page);
  assert.equal(await hasFile(ask, "two.txt"), false, "a click in the moment it appears approves nothing");

  // A button that moves under the pointer is not pressed.
  await page.evaluate(() => {
    const button = document.querySelector(".question button.primary");
    document.querySelector(".composer textarea").style.height = "200px";
    for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"]) button.dispatchEvent(new PointerEvent(type, { bubbles: true, detail: 1 }));
  });
  assert.equal(await hasFile(ask, "two.txt"), false);
  await asked(page);
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.getByText("both written").waitFor();
  assert.equal(await hasFile(ask, "two.txt"), true, "a click on what was read approves");
}

/** An event of an input method, as browsers send it while it composes. */
const composing = (page, selector, key) => page.evaluate(([selector, key]) => {
  for (const init of [{ isComposing: true }, { keyCode: 229 }]) {
    document.querySelector(selector).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...init }));
  }
}, [selector, key]);

/** Esc does what is nearest, and cancels only from the empty prompt or the conversation; nothing is dropped silently. */
export async function escape({ ask, person, accessible, picture }) {
  const [page, other] = [await person(), await person()];
  await logIn(page, ask);
  await start(page);
  await prompt(page, "go on");
  await page.getByText("tick tick").waitFor();
  const works = async (why) => {
    await page.waitForTimeout(150);
    assert.equal(await page.locator(".bar .badge").innerText(), "working", why);
  };
  await page.getByLabel("Filter sessions").fill("go");
  await page.keyboard.press("Escape");
  assert.equal(await page.getByLabel("Filter sessions").inputValue(), "");
  await works("Esc empties the filter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await works("Esc leaves the filter");
  await field(page).fill("half a thought");
  await composing(page, "#prompt", "Enter");
  assert.equal(await field(page).inputValue(), "half a thought", "Enter of an input method does not send");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await works("Esc leaves a prompt that is being written");
  assert.equal(await field(page).inputValue(), "half a thought");
  await field(page).fill("");
  await composing(page, "#prompt", "Escape");
  await works("Esc closes an input method");
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await works("Esc closes a dialog");

  await prompt(page, "the second prompt");
  await prompt(page, "the third prompt");
  await page.getByText("Queued:").nth(1).waitFor();
  await accessible(page, "queued prompts");
  await picture(page, "queued-light");
  await logIn(other, ask);
  await other.goto(page.url());
  for (const window of [other, page]) {
    await window.reload();
    await window.getByText("Queued:").nth(1).waitFor();
    for (const words of ["the second prompt", "the third prompt"]) await window.getByText(words).waitFor();
  }
  await field(page).focus();
  await page.keyboard.press("Escape");
  await page.getByText("Esc again cancels the turn and drops 2 queued prompts").waitFor();
  await works("the queue is not dropped without a word");
  await page.keyboard.press("Escape");
  await page.getByText("Cancelled", { exact: true }).waitFor();
  for (const window of [page, other, page]) {
    await window.getByText("A queued prompt was not run: it was cancelled before its turn").nth(1).waitFor();
    for (const words of ["the second prompt", "the third prompt"]) await window.getByText(words).waitFor();
    assert.equal(await window.getByText("Queued:").count(), 0);
    await window.getByText("Cancelled", { exact: true }).waitFor();
    await window.reload();
  }
  await page.getByRole("button", { name: "Edit again" }).first().click();
  assert.equal(await field(page).inputValue(), "the second prompt");
}

/** Queued prompts are seen by everybody, after a reload too; after a crash the page says which did not run. */
export async function queue({ ask, person, picture }) {
  const [page, other] = [await person({ colorScheme: "dark" }), await person()];
  await logIn(page, ask);
  await start(page);
  await prompt(page, "say nothing");
  await page.getByText("The model returned an empty answer").waitFor();
  await prompt(page, "go on");
  await page.getByText("tick tick").waitFor();
  await logIn(other, ask);
  await other.goto(page.url());
  await other.getByText("tick tick").waitFor();
  await prompt(page, "the second prompt");
  for (const window of [page, other]) {
    await window.getByText("the second prompt").waitFor();
    await window.getByText("Queued:").waitFor();
  }
  await page.reload();
  await page.getByText("Queued:").waitFor();
  await picture(page, "queued-dark");
  await prompt(other, "the third prompt");
  await page.getByText("the third prompt").waitFor();
  await page.getByText("Queued:").nth(1).waitFor();
  await ask("kill");
  await page.getByText("Reconnecting").waitFor();
  assert.match(await page.locator("[data-link=waiting]").innerText(), /the 2 queued prompts do not run/);
  await ask("start");
  for (const round of ["live", "reloaded"]) {
    for (const window of [page, other]) {
      await window.getByText("Interrupted").waitFor();
      await window.getByText("A queued prompt was not run: the server stopped before its turn").nth(1).waitFor();
      for (const words of ["the second prompt", "the third prompt"]) assert.equal(await window.getByText(words).count(), 1, `${words}, ${round}`);
      assert.equal(await window.getByText("Queued:").count(), 0);
    }
    if (round === "live") await picture(page, "crashed-dark");
    for (const window of [page, other]) await window.reload();
  }
  await page.getByText("The model returned an empty answer").waitFor();
}

/** A question takes the focus from an empty prompt and from nowhere, never from text that is being written. */
export async function questions({ ask, person, accessible, picture }) {
  const page = await person();
  await logIn(page, ask);
  await start(page);
  await prompt(page, "ask me");
  await page.locator(".question").getByText("Your name?").waitFor();
  await page.waitForFunction(() => document.activeElement?.matches(".question input"));
  await page.keyboard.press("Enter");
  await page.keyboard.type("Ann");
  await composing(page, ".question input", "Enter");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement?.matches(".question"));
  assert.equal(await page.locator(".question").count(), 1, "neither Esc nor an empty Enter answers");
  await accessible(page, "a question for words");
  await picture(page, "question-light");
  await page.locator(".question input").focus();
  await page.keyboard.press("Enter");

  // The next one comes while a prompt is written: the focus stays, and the text is no answer.
  await page.locator(".question").getByText("Your town?").waitFor();
  await page.locator(".question input").fill("Ghent");
  await page.getByRole("button", { name: "Answer" }).waitFor();
  await asked(page);
  await page.evaluate(() => document.querySelector("#prompt").focus());
  await page.getByRole("button", { name: "Decline" }).click();
  await page.locator(".question").getByText("Your age?").waitFor();
  await field(page).fill("and also th");
  await asked(page);
  await page.keyboard.type("is");
  await page.keyboard.press("Enter");
  await page.getByText("Queued:").waitFor();
  assert.equal(await page.locator(".question").getByText("Your age?").count(), 1, "what was written was sent as a prompt, not as the answer");
  await page.locator(".question input").fill("7");
  await page.keyboard.press("Enter");
  await page.getByText(/You said.*7/s).first().waitFor();
  const answered = (await rest(page, "GET", `/sessions/${await idOf(page)}/events?after=0&limit=1000`)).body.events;
  const texts = answered.filter(({ type }) => type === "question.answered").map(({ outcome, text }) => text ?? outcome);
  assert.deepEqual(texts, ["Ann", "declined", "7"]);
}

/** Addresses that lead nowhere, tables, a phone, text that hides something, and copies of a moment. */
export async function places({ plan, ask, person, accessible, picture }) {
  const page = await person();
  await logIn(page, ask);
  for (const [address, name] of [["0".repeat(32), "unknown"], ["nonsense", "invalid"]]) {
    await page.goto(`${plan.url}/#/s/${address}`);
    await page.getByRole("heading", { name: "Session not found" }).waitFor();
    await accessible(page, `an ${name} session`);
    await picture(page, `missing-${name}`);
    await page.getByRole("link", { name: "All sessions" }).click();
    await page.getByText("No sessions yet.").waitFor();
  }

  await start(page);
  await prompt(page, plan.first);
  await page.getByText("Permission needed").waitFor();
  const request = await page.locator(".question").innerText();
  for (const mark of ["U+202E", "U+200B", "U+E0041", "U+2066"]) assert.ok(request.includes(mark), `${mark} is shown in ${request}`);
  assert.doesNotMatch(request, /[\u202a-\u202e\u2066-\u2069\u200b\u{e0000}-\u{e007f}]/u, "none of them has its effect");
  // The list follows the session a moment later.
  await page.locator(".row-title").filter({ hasText: "U+202E" }).first().waitFor();
  await page.waitForFunction(() => document.title.includes("U+202E"));
  assert.match(await page.locator("article.user").innerText(), /U\+202E/);
  await accessible(page, "marked characters");
  await picture(page, "invisible-light");
  await asked(page);
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByText("the table").waitFor();

  for (const width of [390, 900, 1200]) {
    await page.setViewportSize({ width, height: 800 });
    const broken = await page.locator(".table td, .table th").evaluateAll((cells) => cells.flatMap((cell) => {
      const text = cell.querySelector("bdi")?.firstChild ?? cell.firstChild;
      return [...(text?.textContent ?? "").matchAll(/\S+/g)].filter(({ 0: word, index }) => {
        const range = document.createRange();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
      }).map(([word]) => word);
    }));
    assert.deepEqual(broken, [], `no word of a table is broken at ${width} px`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide at ${width} px`);
    await page.getByLabel("Mode", { exact: true }).waitFor({ state: "visible" });
    await accessible(page, `a conversation at ${width} px`);
    await picture(page, `table-${width}`);
  }
  await page.setViewportSize({ width: 390, height: 800 });
  await page.getByLabel("Mode", { exact: true }).selectOption("plan");
  const id = await idOf(page);
  await page.waitForFunction(() => document.querySelector("select[aria-label=Mode]").value === "plan");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "phone-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 780 });

  // A copy has what the slider shows. Inside a turn the button says where the copy ends.
  await page.goto(`${plan.url}/#/s/${id}/timeline`);
  const slider = page.getByRole("slider", { name: "Event" });
  const { body: { events } } = await rest(page, "GET", `/sessions/${id}/events?after=0&limit=1000`);
  const inside = events.find(({ type }) => type === "tool.use").seq;
  const end = events.findLast(({ type }) => type === "result").seq;
  await slider.waitFor();
  await page.waitForFunction((last) => Number(document.querySelector("input[type=range]").max) >= last, end);
  await slider.fill(String(inside));
  await page.getByText("This moment is inside a turn").waitFor();
  assert.equal(await page.getByRole("button", { name: "Fork here" }).count(), 0);
  const before = Number(/\d+/.exec(await page.getByRole("button", { name: /^Fork at/ }).innerText())[0]);
  assert.ok(before < inside);
  await page.getByRole("button", { name: `show event ${before}` }).click();
  const shown = await page.getByRole("log").innerText();
  await page.getByRole("button", { name: "Fork here" }).click();
  await page.waitForFunction((old) => !location.hash.includes(old), id);
  const copy = await idOf(page);
  const { body: copied } = await rest(page, "GET", `/sessions/${copy}/events?after=0&limit=1000`);
  assert.equal(copied.events.find(({ type }) => type === "session.forked").at, before);
  assert.equal(shown.trim(), (await said(page)).trim());

  // Deleted while it is open, here and by its address.
  await rest(page, "DELETE", `/sessions/${copy}`);
  await page.getByRole("heading", { name: "Session not found" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Session not found" }).waitFor();
}
