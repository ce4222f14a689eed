// Drives the real page in a real browser. PLAN names the story; what the browser cannot do itself (kill the
// server, make a link) is asked of the test by a line on standard output and answered by one on standard input.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { stories } from "./stories.mjs";

const require = createRequire(`${process.env.FASTNESS_PAGE_PEER}/`);
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");

const plan = JSON.parse(process.argv[2]);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the test do something; gives what it answers. */
async function ask(what, details = {}) {
  console.log(JSON.stringify({ do: what, ...details }));
  const { value, done } = await answers.next();
  if (done) throw new Error(`nobody answers to ${what}`);
  return JSON.parse(value);
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"],
});

/** Where requests went that left the server's origin, and what broke on a page: both must stay empty. */
const escaped = [];
const broken = [];

/** A window of its own: nothing is shared with other windows, not even the login. */
async function person(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 780 }, colorScheme: "light", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(plan.timeoutMs ?? 45_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => broken.push(`${error.stack ?? error}`));
  page.on("console", (message) => {
    if (/Content Security Policy|Content-Security-Policy/.test(message.text())) broken.push(message.text());
  });
  page.on("request", (request) => {
    const url = request.url();
    if (/^https?:|^wss?:/.test(url) && !url.startsWith(plan.url)) escaped.push(url);
  });
  page.on("dialog", (dialog) => {
    broken.push(`a dialog opened: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return page;
}

/** What axe finds that a person with another way of reading would stumble over. */
async function accessible(page, state) {
  // The policy of the page lets no foreign script in; this one comes through the debugger.
  await page.evaluate(await import("node:fs").then(({ readFileSync }) => readFileSync(axe, "utf8")));
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const words = serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html}\n      ${node.any.map((check) => check.message).join("; ")}`).join("\n    ")}`);
  if (words.length > 0) throw new Error(`axe finds in ${state}:\n  ${words.join("\n  ")}`);
}

/** Keeps a picture, where the plan wants pictures. */
async function picture(page, name) {
  if (plan.pictures) await page.screenshot({ path: `${plan.pictures}/${name}.png` });
}

let status = 0;
try {
  await stories[plan.story]({ plan, ask, person, accessible, picture });
  if (escaped.length > 0) throw new Error(`requests left the origin: ${escaped.join(", ")}`);
  if (broken.length > 0) throw new Error(`the page broke: ${broken.join("\n")}`);
} catch (error) {
  console.error(error.stack ?? error);
  for (const context of browser.contexts()) {
    for (const page of context.pages()) console.error(`--- a page showed\n${await page.innerText("body").catch(() => "")}`);
  }
  status = 1;
}
await browser.close();
process.exit(status);
