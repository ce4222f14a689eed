// The official TypeScript SDK as a client of Fastness. The plan, one JSON argument, says where
// the agent is and what its scripted model will do; every step that is as it should be prints a
// line, the first that is not ends the program with an error.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const plan = JSON.parse(process.argv[2]);
const { session } = methods.agent;
let choice = "none";
let updates = [];
/** Withdraws the question that is open, if there is one. */
let withdraw = null;

/** What an editor has open, and what was done to it. */
const desk = { written: {}, commands: [], released: 0, asked: [] };

/** Lets `app` have an editor's files, terminal and forms. */
function furnish(app) {
  const { fs, terminal, elicitation } = methods.client;
  return app
    .onRequest(fs.readTextFile, ({ params }) => {
      assert.equal(params.path, file(plan.editor.open), "only what is open is read");
      return { content: plan.editor.buffer };
    })
    .onRequest(fs.writeTextFile, ({ params }) => {
      desk.written[params.path] = params.content;
      return {};
    })
    .onRequest(terminal.create, ({ params }) => {
      desk.commands.push([params.command, ...params.args]);
      return { terminalId: `terminal-${desk.commands.length}` };
    })
    .onRequest(terminal.waitForExit, () => ({ exitCode: 0, signal: null }))
    .onRequest(terminal.output, () => ({ output: plan.editor.printed, truncated: false }))
    .onRequest(terminal.kill, () => ({}))
    .onRequest(terminal.release, () => {
      desk.released += 1;
      return {};
    })
    .onRequest(elicitation.create, ({ params }) => {
      desk.asked.push(params.message);
      return { action: "accept", content: { answer: plan.editor.answer } };
    });
}

const offered = plan.editor
  ? { fs: { readTextFile: true, writeTextFile: true }, terminal: true, elicitation: { form: {} } }
  : {};

/** Connects, initializes, runs `story`, and takes the connection down again. */
async function connected(story) {
  const { stream, leave } = plan.url ? overNetwork() : overStdio();
  const bare = client({ name: "typescript-peer" });
  const app = (plan.editor ? furnish(bare) : bare)
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      if (choice === "wait") {
        return new Promise((resolve) => {
          withdraw = () => resolve({ outcome: { outcome: "cancelled" } });
        });
      }
      const option = params.options.find(({ kind }) => kind === choice);
      assert(option, `no option of kind ${choice} in ${JSON.stringify(params.options)}`);
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params);
    });
  await app.connectWith(stream, async (context) => {
    const greeting = await context.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: offered,
      clientInfo: { name: "typescript-peer", version: "1" },
    });
    assert.equal(greeting.protocolVersion, PROTOCOL_VERSION);
    assert.equal(greeting.agentCapabilities.loadSession, true);
    await story(context);
  });
  await leave();
}

function overStdio() {
  const [command, ...args] = plan.command;
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const leave = async () => {
    child.stdin.end();
    if (child.exitCode === null) await once(child, "exit");
    assert.equal(child.exitCode, 0, "the agent ends well when its input ends");
  };
  return { stream, leave };
}

function overNetwork() {
  const headers = { Authorization: `Bearer ${plan.token}` };
  const stream = plan.url.startsWith("ws")
    ? createWebSocketStream(plan.url, { WebSocket, headers })
    : createHttpStream(plan.url, { headers });
  return { stream, leave: async () => {} };
}

const textOf = (kind) =>
  updates
    .filter(({ update }) => update.sessionUpdate === kind)
    .map(({ update }) => update.content.text)
    .join("");

const statuses = () =>
  updates
    .filter(({ update }) => update.sessionUpdate.startsWith("tool_call"))
    .map(({ update }) => update.status);

const done = (step) => console.log(`ok: ${step}`);
const file = (name) => join(plan.workspace, name);
const prompt = (text) => [{ type: "text", text }];

let sessionId;
let said = "";

/** One turn that works on the editor's desk instead of the server's disk. */
async function editing(context) {
  choice = "allow_once";
  ({ sessionId } = await context.request(session.new, { cwd: plan.workspace, mcpServers: [] }));
  const answer = await context.request(session.prompt, { sessionId, prompt: prompt("edit") });
  assert.equal(answer.stopReason, "end_turn");
  assert.deepEqual(desk.written, { [file(plan.editor.copy)]: plan.editor.copied });
  done("reads see what is not saved, and writes go to the client");
  assert.deepEqual(desk.commands, [["bash", "-c", plan.editor.command]]);
  assert.equal(desk.released, 1);
  done("a command runs in the client's terminal");
  assert.deepEqual(desk.asked, [plan.editor.question]);
  while (!textOf("agent_message_chunk").endsWith(plan.editor.answer)) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  done("a question is shown as a form");
}

if (plan.editor) {
  await connected(editing);
  process.exit(0);
}

await connected(async (context) => {
  done("initialize");
  ({ sessionId } = await context.request(session.new, { cwd: plan.workspace, mcpServers: [] }));
  done("session/new");

  const ask = async (text) => {
    updates = [];
    const answer = await context.request(session.prompt, { sessionId, prompt: prompt(text) });
    said += textOf("agent_message_chunk");
    return answer.stopReason;
  };

  assert.equal(await ask("hello"), "end_turn");
  const chunks = updates.filter(({ update }) => update.sessionUpdate === "agent_message_chunk");
  assert(chunks.length > 1, "the answer comes in more than one chunk");
  assert(textOf("agent_message_chunk").endsWith(plan.hello), textOf("agent_message_chunk"));
  done("a prompt streams its answer");

  choice = "allow_once";
  assert.equal(await ask("write"), "end_turn");
  assert.equal(readFileSync(file(plan.allowed), "utf8"), plan.content);
  assert.equal(statuses().at(-1), "completed");
  done("an allowed tool call runs");

  choice = "reject_once";
  assert.equal(await ask("write again"), "end_turn");
  assert(!existsSync(file(plan.rejected)), "a rejected call leaves no file");
  assert.equal(statuses().at(-1), "failed");
  done("a rejected tool call does not run");

  const turn = ask("count");
  while (!textOf("agent_message_chunk").includes(plan.endless)) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  await context.notify(session.cancel, { sessionId });
  assert.equal(await turn, "cancelled");
  done("cancel ends the turn");

  choice = "wait";
  const asking = ask("write, or wait");
  while (withdraw === null) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  await context.notify(session.cancel, { sessionId });
  withdraw();
  assert.equal(await asking, "cancelled");
  assert(!existsSync(file(plan.open)), "a cancelled call leaves no file");
  assert.equal(statuses().at(-1), "failed");
  done("cancel ends a turn whose question is open");
});

updates = [];
await connected(async (context) => {
  await context.request(session.load, { sessionId, cwd: plan.workspace, mcpServers: [] });
  assert.equal(textOf("user_message_chunk"), "hellowritewrite againcountwrite, or wait");
  assert.equal(textOf("agent_message_chunk"), said);
  const first = updates.findIndex(({ update }) => update.sessionUpdate === "tool_call");
  const user = updates.findIndex(({ update }) => update.content?.text === "write");
  assert(user >= 0 && user < first, "the tool call is replayed after the prompt that led to it");
  done("session/load replays the history");

  updates = [];
  const again = { sessionId, prompt: prompt("hello again") };
  assert.equal((await context.request(session.prompt, again)).stopReason, "end_turn");
  assert(textOf("agent_message_chunk").endsWith(plan.hello), textOf("agent_message_chunk"));
  done("the session goes on");
});
