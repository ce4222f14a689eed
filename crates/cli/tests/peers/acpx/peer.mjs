// The command-line client acpx with Fastness as its agent. The plan, one JSON argument, says how
// the agent is started and what its scripted model will do. Each acpx command is a process; the
// first prompt starts an owner process that keeps the agent for the later ones.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const plan = JSON.parse(process.argv[2]);
const program = join(fileURLToPath(import.meta.resolve("acpx/package.json")), "../dist/cli.js");

// The agent gets a name in the settings: a command line would have to be quoted.
mkdirSync(join(homedir(), ".acpx"));
const settings = { agents: { fastness: { argv: plan.command } } };
writeFileSync(join(homedir(), ".acpx", "config.json"), JSON.stringify(settings));

/** The arguments of one acpx command; without files of its own, so that the agent's tools run. */
const line = (flags, words) => [
  program,
  ...["--cwd", plan.workspace, "--ttl", "300", "--no-fs", "--no-terminal", "--format", "json"],
  ...flags,
  "fastness",
  ...words,
];

/** Runs one acpx command to its end; gives the JSON lines it printed. */
async function acpx(flags, ...words) {
  const { stdout } = await promisify(execFile)(process.execPath, line(flags, words));
  return stdout.trim().split("\n").map((text) => JSON.parse(text));
}

const textOf = (messages) =>
  messages
    .map(({ params }) => params?.update)
    .filter((update) => update?.sessionUpdate === "agent_message_chunk")
    .map((update) => update.content.text)
    .join("");

const stopReasonOf = (messages) =>
  messages.map(({ result }) => result?.stopReason).find((reason) => reason);

/** The requests among the messages that carry a session on into a new process of the agent. */
const attachments = (messages) =>
  messages.filter(({ method }) => method === "session/load" || method === "session/resume");

const done = (step) => console.log(`ok: ${step}`);
const file = (name) => join(plan.workspace, name);

/** Prompts for the endless answer, cancels it once it has begun; gives all messages. */
async function cancelled() {
  const child = spawn(process.execPath, line([], ["prompt", "count"]), {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const messages = [];
  let cancel;
  for await (const text of createInterface({ input: child.stdout })) {
    messages.push(JSON.parse(text));
    if (!cancel && textOf(messages).includes(plan.endless)) cancel = acpx([], "cancel");
  }
  await cancel;
  await ended;
  return messages;
}

async function story() {
  const [created] = await acpx([], "sessions", "new");
  const sessionId = created.acpxSessionId;
  assert(sessionId, JSON.stringify(created));
  done("session/new");

  let messages = await acpx([], "prompt", "hello");
  assert.deepEqual(attachments(messages).map(({ params }) => params.sessionId), [sessionId]);
  assert(textOf(messages).endsWith(plan.hello), textOf(messages));
  assert.equal(stopReasonOf(messages), "end_turn");
  done("a new process of the agent carries the session on and streams an answer");

  messages = await acpx(["--approve-all"], "prompt", "write");
  assert.equal(stopReasonOf(messages), "end_turn");
  assert.equal(readFileSync(file(plan.allowed), "utf8"), plan.content);
  done("an allowed tool call runs");

  messages = await acpx(["--deny-all"], "prompt", "write again");
  assert.equal(stopReasonOf(messages), "end_turn");
  assert(!existsSync(file(plan.rejected)), "a rejected call leaves no file");
  done("a rejected tool call does not run");

  assert.equal(stopReasonOf(await cancelled()), "cancelled");
  done("cancel ends the turn");

  let [owner] = await acpx([], "status");
  assert.equal(owner.status, "alive", JSON.stringify(owner));
  process.kill(owner.pid, "SIGTERM");
  while (owner.status === "alive") [owner] = await acpx([], "status");
  [{ sessions: messages }] = await acpx([], "sessions", "list");
  assert(messages.some((session) => session.sessionId === sessionId), JSON.stringify(messages));
  messages = await acpx([], "prompt", "hello");
  assert.deepEqual(attachments(messages).map(({ params }) => params.sessionId), [sessionId]);
  assert.equal(stopReasonOf(messages), "end_turn");
  done("the next process of the agent lists the session and carries it on");
}

try {
  await story();
} finally {
  // This also ends the owner and its agent: nothing stays behind.
  await acpx([], "sessions", "close");
}
done("session/close");
