// Calls of a tool server by the TypeScript SDK. Prints a JSON array of milliseconds.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [place, kind, count, ...words] = process.argv.slice(2);
const require = createRequire(place + "/");
const load = async (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)).href);
const { Client } = await load("client/index.js");
const open = async () => {
  const client = new Client({ name: "bench", version: "1" });
  if (kind === "http") {
    const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
    await client.connect(new StreamableHTTPClientTransport(new URL(words[0])));
  } else {
    const { StdioClientTransport } = await load("client/stdio.js");
    const [command, ...args] = words;
    await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
  }
  return client;
};
const took = [];
if (kind === "start") {
  const begun = performance.now();
  const clients = await Promise.all(
    Array.from({ length: Number(count) }, async () => {
      const client = await open();
      await client.listTools();
      return client;
    }),
  );
  took.push(performance.now() - begun);
  await Promise.all(clients.map((client) => client.close()));
} else {
  const client = await open();
  await client.listTools();
  for (let round = 0; round < Number(count); round += 1) {
    const begun = performance.now();
    await client.callTool({ name: "echo", arguments: { message: "hello" } });
    took.push(performance.now() - begun);
  }
  await client.close();
}
console.log(JSON.stringify(took));
process.exit(0);
