// Builds the view and the page of slalom serve into the Python package. The same sources and lock file give the same bytes.
//   node build.mjs           writes the view into reports/static and the page into serve/static
//   node build.mjs --check   builds in memory and compares with what is committed
//   node build.mjs --tests   bundles the tests for node's test runner
import { existsSync, readdirSync, readFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const shared = { absWorkingDir: here, bundle: true, charset: "ascii", legalComments: "none", logLevel: "warning", write: false };

if (process.argv.includes("--tests")) {
  const entryPoints = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts")).map((name) => join("test", name));
  await build({ ...shared, entryPoints, outdir: "build", format: "esm", platform: "node", target: "node20", write: true });
  process.exit(0);
}

/** A script and a style sheet of the same name. */
async function bundle(name, folder, script, style) {
  const outdir = join(here, "..", "src", "slalom_xai", folder, "static");
  const scripts = await build({ ...shared, entryPoints: { [name]: script }, outdir, format: "iife", minify: true, target: ["es2021"] });
  const styles = await build({ ...shared, entryPoints: { [name]: style }, outdir, minify: true, target: ["chrome110", "firefox113", "safari16.2"] });
  return [...scripts.outputFiles, ...styles.outputFiles];
}

const page = join(here, "..", "src", "slalom_xai", "serve", "static", "index.html");
const files = [
  ...(await bundle("view", "reports", "src/main.ts", "src/view.css")),
  ...(await bundle("app", "serve", "src/app/main.ts", "src/app/app.css")),
  { path: page, text: readFileSync(join(here, "src", "app", "index.html"), "utf8") },
];
let stale = false;
for (const { path, text } of files) {
  const name = relative(join(here, ".."), path);
  if (process.argv.includes("--check")) {
    if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
      stale = true;
      console.error(`error: ${name} is not what the sources build: run make view`);
    }
  } else {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.log(`${name} ${text.length} bytes`);
  }
}
process.exit(stale ? 1 : 0);
