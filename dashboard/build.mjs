// Builds the page into the folder given as the first argument: files with a hash in their names, each also packed,
// index.html with their names, manifest.json with everything that may be served, and the licences of what is bundled.
import { build } from "esbuild";
import { gzipSync } from "node:zlib";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const out = process.argv[2];
if (!out) throw new Error("usage: node build.mjs FOLDER");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const result = await build({
  entryPoints: { main: "src/main.tsx" },
  bundle: true, splitting: true, format: "esm", target: "es2022", minify: true, metafile: true, outdir: out,
  entryNames: "[name]-[hash]", chunkNames: "[name]-[hash]", assetNames: "[name]-[hash]",
  jsx: "automatic", jsxImportSource: "preact", loader: { ".json": "json", ".woff2": "file" }, legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
});

const entry = Object.entries(result.metafile.outputs).find(([, each]) => each.entryPoint === "src/main.tsx");
const needed = entry[1].imports.filter((each) => each.kind === "import-statement").map((each) => each.path);
const bundled = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) bundled.add(found[1]);
}
writeFileSync(join(out, "licences.txt"), [...bundled].sort().map(licence).join("\n\n"));
const files = readdirSync(out).sort();
for (const name of files) writeFileSync(join(out, `${name}.gz`), gzipSync(readFileSync(join(out, name)), { level: 9 }));
const page = readFileSync("index.html", "utf8")
  .replace("{{preload}}", needed.map((each) => `<link rel="modulepreload" href="${basename(each)}">`).join("\n    "))
  .replace("{{style}}", basename(entry[1].cssBundle)).replace("{{script}}", basename(entry[0]));
writeFileSync(join(out, "index.html"), page);
writeFileSync(join(out, "manifest.json"), JSON.stringify({ files }));

function licence(name) {
  const folder = join("node_modules", name);
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return `${name} ${about.version} (${about.license})\n\n${file ? readFileSync(join(folder, file), "utf8") : ""}`;
}
