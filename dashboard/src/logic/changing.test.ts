import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { parser } from "@lezer/yaml";
import { steps } from "./fieldpaths.ts";
import { editable, missing, partsOf } from "./manifest.ts";
import { endings, outlook, planned, sentence, type CityPlan } from "./plans.ts";
import { located, problemsOf, within } from "./problems.ts";
import { below, fields, kindOf, unknownFields, values, type Document } from "./schema.ts";
import { broken, typing } from "./yamltree.ts";

const EXAMPLE = readFileSync(new URL("../../../examples/web.yaml", import.meta.url), "utf8");
const lineWith = (text: string, what: string) => text.split("\n").findIndex((each) => each.includes(what)) + 1;

function linesOf(text: string, message: string, causes: { field?: string; message?: string }[] = []): number[] {
  return located(problemsOf({ message, causes }), parser.parse(text), text).map((each) => each.line);
}

test("a path is read as the server writes it", () => {
  assert.deepEqual(steps("spec.ports[0].name"), ["spec", "ports", 0, "name"]);
  assert.deepEqual(steps('.spec.placements[name="us"].cityCodes'), ["spec", "placements", { name: "us" }, "cityCodes"]);
  assert.deepEqual(steps('.ports[port="1",protocol="TCP"]'), ["ports", { port: "1", protocol: "TCP" }]);
  assert.deepEqual(steps("metadata.labels[a.b/c]"), ["metadata", "labels", "a.b/c"]);
  assert.deepEqual(steps(""), []);
});

test("what the server refuses is at its line, whichever way it says so", () => {
  const wrong = EXAMPLE.replace("sandbox:", "sandbx:");
  const typed = "failed to create typed patch object (/web; compute.datumapis.com/v1alpha, Kind=Workload): ";
  assert.deepEqual(linesOf(wrong, `${typed}.spec.template.spec.runtime.sandbx: field not declared in schema`), [lineWith(wrong, "sandbx")]);
  assert.deepEqual(linesOf(EXAMPLE, `${typed}.spec.placements[name="us"].scaleSettings.minReplicas: expected numeric`), [lineWith(EXAMPLE, "minReplicas")]);
  assert.deepEqual(linesOf(wrong, `${typed}errors:\n  .spec.template.spec.runtime.sandbx: field not declared\n  .kind: no`), [lineWith(wrong, "sandbx"), 3]);
  assert.deepEqual(linesOf(wrong, 'strict decoding error: unknown field "spec.template.spec.runtime.sandbx"'), [lineWith(wrong, "sandbx")]);
  assert.deepEqual(linesOf(EXAMPLE, "yaml: line 14: did not find expected ',' or ']'"), [14]);
  assert.deepEqual(linesOf(EXAMPLE, 'yaml: unmarshal errors:\n  line 6: key "name" already set in map\n  line 8: another'), [6, 8]);
  const causes = [{ field: "spec.placements[0].cityCodes[1]", message: "no such city" }, { field: "spec.template.spec.runtime.sandbox.containers[0].ports[0].port", message: "too large" }];
  assert.deepEqual(linesOf(EXAMPLE, "invalid", causes), [lineWith(EXAMPLE, "cityCodes"), lineWith(EXAMPLE, "8080")]);
});

test("what is missing is shown at what it is missing from, and what has no field at the beginning", () => {
  assert.deepEqual(linesOf(EXAMPLE, "invalid", [{ field: "spec.placements[0].scaleSettings.maxReplicas", message: "Required value" }]), [lineWith(EXAMPLE, "scaleSettings")]);
  assert.deepEqual(linesOf(EXAMPLE, "the server is away"), [1]);
  assert.deepEqual(linesOf("", "nothing", [{ field: "spec", message: "Required value" }]), [1]);
  assert.deepEqual(linesOf("a: 1\n", "yaml: line 40: far beyond the end"), [2]);
});

test("text that does not parse has a place, and the example has none", () => {
  assert.equal(broken(parser.parse(EXAMPLE)), null);
  const text = "a: [1\nb: 2\n  c: 3\n";
  assert.ok((broken(parser.parse(text)) ?? -1) > 0);
});

const DOCUMENT: Document = {
  components: {
    schemas: {
      "x.Thing": {
        "x-kubernetes-group-version-kind": [{ group: "x", version: "v1", kind: "Thing" }], type: "object",
        properties: {
          apiVersion: { type: "string" }, kind: { type: "string" },
          metadata: { allOf: [{ $ref: "#/components/schemas/x.Meta" }], description: "Its names." },
          spec: {
            type: "object", required: ["size"],
            properties: {
              size: { type: "string", enum: ["small", "large"] }, paused: { type: "boolean" },
              parts: { type: "array", items: { type: "object", properties: { name: { type: "string" }, network: { type: "object", properties: { name: { type: "string" } } } } } },
              free: { type: "object", additionalProperties: { type: "object", properties: { known: {} } } },
            },
          },
        },
      },
      "x.Meta": { type: "object", description: "Metadata.", properties: { name: { type: "string" }, labels: { type: "object", additionalProperties: { type: "string" } } } },
    },
  },
};
const THING = kindOf(DOCUMENT, "x", "v1", "Thing") ?? {};

test("a schema knows fields, what they mean and what they may be", () => {
  assert.equal(kindOf(DOCUMENT, "x", "v1", "Other"), null);
  assert.deepEqual(fields(DOCUMENT, below(DOCUMENT, THING, ["spec"]) ?? {}).map((each) => each.name), ["size", "free", "parts", "paused"]);
  assert.equal(below(DOCUMENT, THING, ["metadata"])?.description, "Its names.");
  assert.deepEqual(fields(DOCUMENT, below(DOCUMENT, THING, ["spec", "parts", "[]"]) ?? {}).map((each) => each.name), ["name", "network"]);
  assert.deepEqual(values(below(DOCUMENT, THING, ["spec", "size"]) ?? {}), ["small", "large"]);
  assert.deepEqual(values(below(DOCUMENT, THING, ["spec", "paused"]) ?? {}), ["true", "false"]);
  assert.equal(below(DOCUMENT, THING, ["spec", "nothing"]), null);
});

test("a field that there is not is found at its line with what was meant, and a short form is left alone", () => {
  const text = "kind: Thing\nmetadata:\n  name: x\n  labels:\n    any: thing\nspec:\n  siez: small\n  parts:\n    - name: a\n      network: default\n    - nme: b\n  free:\n    whatever:\n      unheard: 1\n";
  const found = unknownFields(DOCUMENT, THING, parser.parse(text), text);
  assert.deepEqual(found.map(({ line, message }) => [line, message]), [
    [7, "spec has no field siez: did you mean size?"], [11, "spec.parts[1] has no field nme: did you mean name?"],
    [14, "spec.free.whatever has no field unheard"],
  ]);
  assert.deepEqual(unknownFields(DOCUMENT, THING, parser.parse(""), ""), []);
});

test("what is typed has the fields around it, in lists too", () => {
  const at = (text: string) => typing(text, text.length);
  assert.deepEqual(at("spec:\n  ro"), { path: ["spec"], field: "", from: 8 });
  assert.deepEqual(at("spec:\n  parts:\n    - name: a\n      ")?.path, ["spec", "parts", "[]"]);
  assert.deepEqual(at("spec:\n  parts:\n    - name: a\n    - ")?.path, ["spec", "parts", "[]"]);
  assert.deepEqual(at("a:\n- b: 1\n  ")?.path, ["a", "[]"]);
  assert.deepEqual(at("a:\n- b:\n    c:\n    - d: 1\n      ")?.path, ["a", "[]", "b", "c", "[]"]);
  assert.deepEqual(at("a:\n  b:\n    c: 1\n  d: 2\nx"), { path: [], field: "", from: 24 });
  assert.deepEqual(at("spec:\n  size: sm"), { path: ["spec"], field: "size", from: 14 });
  assert.equal(at("spec: {a b c"), null);
});

const parts = (text: string) => partsOf(parser.parse(text), text);
const BLOCK = "# a comment\napiVersion: x/v1\nkind: Workload\nmetadata:\n  name: web\n  labels:\n    namespace: no\nspec: {}\n";

test("block style, flow style and JSON name the same object", () => {
  const texts = [BLOCK, "apiVersion: x/v1\nkind: Workload\nmetadata: {name: web}\n", '{"apiVersion": "x/v1", "kind": "Workload", "metadata": {"name": "web"}}'];
  for (const text of texts) {
    const [one, ...more] = parts(text);
    assert.deepEqual([one?.apiVersion, one?.kind, one?.name, one?.namespace, more.length], ["x/v1", "Workload", "web", "", 0]);
    assert.equal(one && missing(one), "");
  }
  assert.equal(parts(BLOCK.replace("  labels", "  namespace: own\n  labels"))[0]?.namespace, "own");
});

test("the first field that is missing for an address is named", () => {
  const gap = (text: string) => missing(parts(text)[0] as never);
  assert.match(gap("kind: Pod\nmetadata:\n  name: x\n"), /^apiVersion: is missing/);
  assert.match(gap("apiVersion: v1\nmetadata:\n  name: x\n"), /^kind: is missing/);
  assert.match(gap("apiVersion: v1\nkind: Workload\nspec: {}\n"), /metadata.name/);
  assert.deepEqual(parts("# nothing\n"), []);
});

test("several objects are told apart, with the lines that the server counts from the beginning of each", () => {
  const text = `${BLOCK}---\n# only a comment\n---\nkind: B\nmetadata: {name: b}\n`;
  const [first, second, ...more] = parts(text);
  assert.deepEqual([first?.kind, second?.kind, second?.document, more.length], ["Workload", "B", 2, 0]);
  assert.ok(second);
  const problems = within([{ message: "m", field: "metadata.name" }, { message: "n", line: 2 }], second);
  assert.deepEqual(located(problems, parser.parse(text), text).map((each) => each.line), [13, 12]);
});

test("the kind is known before the rest is written", () => {
  const [unfinished] = parts("apiVersion: x/v1\nkind: Workload\nmetadata:\n  na");
  assert.deepEqual([unfinished?.apiVersion, unfinished?.kind], ["x/v1", "Workload"]);
});

test("what the server keeps in an object is taken out before it is changed", () => {
  const yaml = [
    "apiVersion: v1", "kind: Workload", "metadata:", "  annotations:", "    kubectl.kubernetes.io/last-applied-configuration: '{\"a\":1}", "", "      '",
    "  creationTimestamp: '2026'", "  finalizers:", "  - x/y", "  managedFields:", "  - apiVersion: v1", "    fieldsV1:", "      f:spec: {}", "    manager: kubectl",
    "  name: web", "  namespace: shop", "  uid: u", "spec:", "  status: kept", "  list:", "  - uid: kept", "status:", "  ready: 1", "  list:", "  - x", "",
  ].join("\n");
  assert.equal(editable(yaml), "apiVersion: v1\nkind: Workload\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  status: kept\n  list:\n  - uid: kept");
  assert.match(editable(yaml.replace("    kubectl", "    note: mine\n    kubectl")), /annotations:\n {4}note: mine\n {2}name/);
});

const NOTHING: CityPlan = { city: "DFW", create: 0, replace: 0, delete: 0, keep: 0, moved: 0, wave: 0, refused: [], endings: [] };

test("a plan is said in a few signs and a sentence", () => {
  assert.equal(planned({ ...NOTHING, create: 2, replace: 1, delete: 3, moved: 1 }), "DFW +2 ~1 →1 −3");
  assert.equal(planned(NOTHING), "DFW =");
  assert.equal(outlook({ ...NOTHING, create: 1 }), "yes");
  assert.equal(outlook({ ...NOTHING, delete: 1 }), "wait");
  const refused = { ...NOTHING, city: "SEA", refused: [{ reason: "R", message: "m", change: "c", instances: 1 }] };
  assert.equal(outlook(refused), "no");
  const plan = { accepted: true, causes: [], cities: [{ ...NOTHING, delete: 1, endings: [{ node: "n", pods: ["a"], others: 2 }] }, refused] };
  assert.deepEqual([...endings(plan)], [["DFW", 4]]);
  assert.equal(sentence(plan), "1 ended; something cannot run in 1 of 2 cities.");
  assert.equal(sentence({ ...plan, cities: [] }), "Nothing changes.");
});
