// Builds the page: one script, one style sheet, one picture, each named by its content, and the HTML that
// names them.
//
//   node build.mjs OUT                 writes the same bytes on every machine
//   node build.mjs --compare A B       fails unless B holds what A holds, packed or not
//   node build.mjs --tests OUT         the tests, one file each, for `node --test`
//
// Files carry fixed names on disk, so that the server can embed them; the hash stands in the address only.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

/** All that a browser fetches, compressed. */
const BYTES_MAX = 150 * 1024;

const here = fileURLToPath(new URL(".", import.meta.url));
const common = {
  bundle: true, write: false, legalComments: "none", absWorkingDir: here, jsx: "automatic", jsxImportSource: "preact",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
};

async function make(out) {
  const script = await build({ ...common, minify: true, entryPoints: ["src/main.tsx"], format: "esm", define: { "process.env.NODE_ENV": '"production"' } });
  const style = await build({ ...common, minify: true, entryPoints: ["src/page.css"] });
  const files = {
    "page.js": script.outputFiles[0].contents,
    "page.css": style.outputFiles[0].contents,
    "icon.svg": readFileSync(join(here, "src/icon.svg")),
  };
  let html = readFileSync(join(here, "src/index.html"), "utf8");
  html = html.replace("SCRIPT", named("page", "js", files["page.js"]));
  html = html.replace("STYLE", named("page", "css", files["page.css"]));
  html = html.replace("ICON", named("icon", "svg", files["icon.svg"]));
  files["index.html"] = Buffer.from(html);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) {
    const packed = gzipSync(bytes, { level: 9 });
    // The header names the system that packed it, which says nothing about the page.
    packed[9] = 255;
    writeFileSync(join(out, name), bytes);
    writeFileSync(join(out, `${name}.gz`), packed);
  }
  measure(out);
}

function named(name, extension, bytes) {
  return `${name}-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}.${extension}`;
}

function measure(folder) {
  const packed = readdirSync(folder).filter((name) => name.endsWith(".gz"));
  const total = packed.reduce((sum, name) => sum + readFileSync(join(folder, name)).length, 0);
  if (total > BYTES_MAX) fail(`the page has grown to ${total} bytes; ${BYTES_MAX} is the most`);
  console.log(`${(total / 1024).toFixed(1)} KiB compressed`);
}

/** Packed files are compared unpacked: versions of zlib differ in how they pack. */
function compare(built, kept) {
  const names = readdirSync(built).sort();
  if (names.join() !== readdirSync(kept).sort().join()) fail("the built page has other files than the one that is checked in");
  for (const name of names) {
    const [fresh, old] = [built, kept].map((folder) => {
      const bytes = readFileSync(join(folder, name));
      return name.endsWith(".gz") ? gunzipSync(bytes) : bytes;
    });
    if (!fresh.equals(old)) fail(`${name} is not what the source gives; run scripts/page.sh build`);
  }
  measure(kept);
}

async function makeTests(out) {
  const tests = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...common, write: true, entryPoints: tests.map((name) => `test/${name}`), platform: "node", format: "esm", target: "node20",
    outdir: out, outExtension: { ".js": ".mjs" },
  });
}

function fail(words) {
  console.error(words);
  process.exit(1);
}

const [first, second, third] = process.argv.slice(2);
if (first === "--compare" && second && third) compare(second, third);
else if (first === "--tests" && second) await makeTests(second);
else if (first) await make(first);
else fail("usage: node build.mjs OUT | --compare A B | --tests OUT");
