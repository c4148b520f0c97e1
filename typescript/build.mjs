// Puts the npm package together: node build.mjs --out FOLDER --modules NODE_MODULES --native FILE --binary FILE
//
// The core exists once, as CommonJS, so that there is one native handle and one class for each error in a process.
// ESM gets it through a file that exports the same names. The adapters exist in both forms, because the frameworks do.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    out: { type: "string" },
    modules: { type: "string" },
    native: { type: "string" },
    binary: { type: "string" },
    platform: { type: "string", default: `${process.platform}-${process.arch}` },
  },
});
for (const name of ["out", "modules", "native", "binary"]) {
  if (!values[name]) throw new Error(`--${name} is missing`);
}
const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(values.out);
const modules = resolve(values.modules);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

for (const [form, type] of [["cjs", "commonjs"], ["esm", "module"]]) {
  const stage = join(out, "stage", form);
  mkdirSync(stage, { recursive: true });
  cpSync(join(here, "src"), join(stage, "src"), { recursive: true });
  copyFileSync(join(here, "tsconfig.json"), join(stage, "tsconfig.json"));
  writeFileSync(join(stage, "package.json"), JSON.stringify({ type }));
  symlinkSync(modules, join(stage, "node_modules"));
  const dist = join(out, "dist", form);
  const tsc = join(modules, "typescript", "bin", "tsc");
  execFileSync(process.execPath, [tsc, "-p", stage, "--outDir", dist], { stdio: "inherit" });
  writeFileSync(join(dist, "package.json"), JSON.stringify({ type }));
}
rmSync(join(out, "stage"), { recursive: true });
writeFileSync(
  join(out, "dist", "esm", "index.js"),
  'import relight from "../cjs/index.js";\nexport * from "../cjs/index.js";\nexport default relight.default;\n',
);

cpSync(join(here, "bin"), join(out, "bin"), { recursive: true });
chmodSync(join(out, "bin", "relight.js"), 0o755);
const native = join(out, "native", values.platform);
mkdirSync(native, { recursive: true });
copyFileSync(values.native, join(native, "relight.node"));
copyFileSync(values.binary, join(native, "relight"));
chmodSync(join(native, "relight"), 0o755);
for (const file of ["package.json", "README.md"]) copyFileSync(join(here, file), join(out, file));
copyFileSync(join(here, "..", "LICENSE"), join(out, "LICENSE"));
