// Builds the view into the Python package. The same sources and lock file give the same bytes.
//   node build.mjs           writes view.js and view.css
//   node build.mjs --check   builds in memory and compares with what is committed
//   node build.mjs --tests   bundles the tests for node's test runner
import { readdirSync, readFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "src", "slalom_xai", "reports", "static");
const shared = { absWorkingDir: here, bundle: true, charset: "ascii", legalComments: "none", logLevel: "warning", write: false };

if (process.argv.includes("--tests")) {
  const entryPoints = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts")).map((name) => join("test", name));
  await build({ ...shared, entryPoints, outdir: "build", format: "esm", platform: "node", target: "node20", write: true });
  process.exit(0);
}

const view = await build({
  ...shared, entryPoints: { view: "src/main.ts" }, outdir: target, format: "iife", minify: true, target: ["es2021"],
});
const style = await build({ ...shared, entryPoints: { view: "src/view.css" }, outdir: target, minify: true, target: ["chrome110", "firefox113", "safari16.2"] });
let stale = false;
mkdirSync(target, { recursive: true });
for (const file of [...view.outputFiles, ...style.outputFiles]) {
  const name = relative(join(here, ".."), file.path);
  if (process.argv.includes("--check")) {
    const committed = readFileSync(file.path, "utf8");
    if (committed !== file.text) {
      stale = true;
      console.error(`error: ${name} is not what the sources build: run make view`);
    }
  } else {
    writeFileSync(file.path, file.text);
    console.log(`${name} ${file.text.length} bytes`);
  }
}
process.exit(stale ? 1 : 0);
