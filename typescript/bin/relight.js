#!/usr/bin/env node
// Runs the binary of the package as if it had been called itself: same input and output, same exit code.
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { constants } = require("node:os");
const { join } = require("node:path");

const binary = join(__dirname, "..", "native", `${process.platform}-${process.arch}`, "relight");
// The binary decides what a signal does; this process stays until it has ended. A signal may come as soon as there is
// a child, so the handlers come first; they run when all of this file has run.
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
// The keys of a terminal reach the binary by themselves, and a second Ctrl-C means more than the first.
for (const signal of ["SIGINT", "SIGQUIT"]) {
  process.on(signal, () => isInForeground() || child.kill(signal));
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`relight: there is no binary for ${process.platform}-${process.arch}: ${error.message}`);
  process.exitCode = 69;
});
child.on("exit", (code, signal) => {
  process.exitCode = signal === null ? (code ?? 1) : 128 + constants.signals[signal];
});

/** Whether the keys of a terminal are signals to this process and to the binary. */
function isInForeground() {
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    // The fields after the name, which may have anything in it.
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return group === foreground;
  } catch {
    return process.stdin.isTTY === true;
  }
}
