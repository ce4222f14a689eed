#!/usr/bin/env node
// Starts the program of the package for this system; npm installs only the matching one.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

/** Packages with a program, by `process.platform` and `process.arch`. */
const PACKAGES = { "linux x64": "fastness-linux-x64" };

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

function program() {
  const system = `${process.platform} ${process.arch}`;
  const name = PACKAGES[system];
  if (name === undefined) {
    fail(
      `there is no program of fastness for "${system}". ` +
        `Supported: ${Object.keys(PACKAGES).join(", ")} (with glibc).`,
    );
  }
  try {
    return require.resolve(`${name}/bin/fastness`);
  } catch {
    return fail(
      `the package "${name}" is not installed, perhaps because optional packages were left out. ` +
        `Install it with "npm install ${name}".`,
    );
  }
}

const path = program();
const rest = process.argv.slice(2);

// Newer versions of Node can become the program, so that signals and exit codes need no help.
if (typeof process.execve === "function") {
  process.execve(path, [path, ...rest], process.env);
}

const child = spawn(path, rest, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  const hint =
    error.code === "ENOENT" ? " This system has no glibc loader; musl systems are not supported." : "";
  fail(`cannot start "${path}" (${error.message}).${hint}`);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal]);
});
