import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parser } from "@lezer/yaml";
import { formOf, written, type FieldName } from "./form.ts";

const EXAMPLE = readFileSync(new URL("../../../examples/web.yaml", import.meta.url), "utf8");

function fieldsOf(text: string) {
  return formOf(parser.parse(text), text, 0);
}

function changed(text: string, name: FieldName, value: string): string {
  const field = fieldsOf(text).find((each) => each.name === name);
  assert.ok(field);
  return text.slice(0, field.from) + written(name, value) + text.slice(field.to);
}

test("the fields of a Workload are read from its text", () => {
  assert.deepEqual(fieldsOf(EXAMPLE).map((each) => [each.name, each.value]), [
    ["image", "registry.local/tarmac/web:1"], ["port", "8080"], ["cities", "DFW, SEA"], ["replicas", "1"], ["cpu", "100m"], ["memory", "128Mi"],
  ]);
});

test("a changed field leaves the rest of the text as it is", () => {
  assert.equal(changed(EXAMPLE, "replicas", "3"), EXAMPLE.replace("minReplicas: 1", "minReplicas: 3"));
  assert.equal(changed(EXAMPLE, "cities", "dfw lhr"), EXAMPLE.replace('["DFW", "SEA"]', "[DFW, LHR]"));
  assert.equal(changed(EXAMPLE, "port", "9090"), EXAMPLE.replace("port: 8080", "port: 9090"));
  assert.equal(changed(EXAMPLE, "cpu", "2"), EXAMPLE.replace("cpu: 100m", 'cpu: "2"'));
  assert.equal(changed(EXAMPLE, "memory", "1Gi"), EXAMPLE.replace("memory: 128Mi", "memory: 1Gi"));
  assert.equal(changed(EXAMPLE, "image", "a: b"), EXAMPLE.replace("registry.local/tarmac/web:1", '"a: b"'));
});

test("a list in block style becomes one in flow style", () => {
  const block = EXAMPLE.replace('cityCodes: ["DFW", "SEA"]', "cityCodes:\n        - DFW\n        - SEA");
  const fields = fieldsOf(changed(block, "cities", "LHR"));
  assert.deepEqual(fields.slice(2, 4).map((each) => each.value), ["LHR", "1"]);
});

test("other kinds, and fields that the text does not have, are not in the form", () => {
  assert.deepEqual(fieldsOf("kind: ConfigMap\nspec: {}\n"), []);
  assert.deepEqual(fieldsOf(""), []);
  assert.deepEqual(fieldsOf("kind: Workload\nspec:\n  placements:\n    - cityCodes: [NO]\n").map((each) => each.value), ["NO"]);
});
