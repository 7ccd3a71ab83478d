import assert from "node:assert/strict";
import { test } from "node:test";
import { LogLines } from "./loglines.ts";
import { asked, commandOf, containersOf, linked, optionsOf } from "./logoptions.ts";

const at = (fraction: string, text: string) => `2026-11-17T06:00:00${fraction}Z ${text}\n`;

test("times are read off the lines and shown only if wanted", () => {
  const log = new LogLines();
  log.take(at(".5", "one") + "no time\n" + at(".6", "").trimEnd());
  assert.equal(log.shown(false, "").text, "one\nno time\n");
  assert.equal(log.shown(true, "ONE").text, "2026-11-17T06:00:00.5Z one");
  assert.deepEqual([log.shown(false, "one").found, log.shown(false, "one").all], [1, 3]);
});

test("a stream that broke is read on without a gap and without a line twice", () => {
  const log = new LogLines();
  log.take(at("", "a") + at(".1", "b") + at(".10", "c") + "2026-11-17T06:00:00.2Z hal");
  assert.equal(log.since, "2026-11-17T06:00:00.1Z");
  log.again();
  log.take(at("", "a") + at(".100000000", "b") + "2026-11-17T06:00:00.1Z c"); // the server goes back to a whole second
  assert.equal(log.shown(false, "").text, "a\nb\nc");
  log.take("\n" + at(".1", "d") + at(".2", "half no more") + "2026-11-17T08:00:00.3+02:00 e\n");
  assert.equal(log.shown(false, "").text, "a\nb\nc\nd\nhalf no more\ne");
  log.again();
  log.take("2026-11-17T06:00:00.30Z e\n" + at(".4", "f"));
  assert.equal(log.shown(false, "").text, "a\nb\nc\nd\nhalf no more\ne\nf");
});

test("the newest are kept, and what would act on the page is marked", () => {
  const log = new LogLines();
  for (let each = 0; each < 600; each += 1) log.take(`${"x".repeat(1000)}${each}\n`);
  const { text, all } = log.shown(false, "");
  assert.ok(text.length <= 510_000 && all < 600);
  assert.ok(text.endsWith("x599"));
  log.take("\u001b]0;title\u0007\u202e\n");
  assert.ok(log.shown(false, "title").text.includes("␛]0;title␇⟨202e⟩"));
});

test("options are their link, their request and their command", () => {
  const plain = optionsOf(new URLSearchParams());
  assert.deepEqual(asked(plain), { timestamps: "true", tailLines: "1000" });
  assert.deepEqual(Object.values(linked(plain)).filter(Boolean), []);
  assert.equal(commandOf(plain, "x -n y"), "kubectl logs -f x -n y");
  const query = new URLSearchParams({ c: "a b", since: "5m", previous: "true", times: "true", wrap: "false", find: "z" });
  const chosen = optionsOf(query);
  assert.deepEqual(new URLSearchParams(Object.entries(linked(chosen)).filter(([, each]) => each)), query);
  assert.deepEqual(asked(chosen), { container: "a b", previous: "true", timestamps: "true", sinceSeconds: "300", tailLines: "10000" });
  assert.equal(commandOf(chosen, "x"), "kubectl logs x -c 'a b' --since=5m --previous --timestamps");
  assert.equal(optionsOf(new URLSearchParams("since=$(reboot)")).since, "");
});

test("of several containers one is meant", () => {
  const pod = { spec: { containers: [{ name: "a" }, { name: "b" }], initContainers: [{ name: "i" }] } };
  assert.deepEqual(containersOf(pod), ["a", "b", "i"]);
  assert.deepEqual(containersOf({ ...pod, metadata: { annotations: { "kubectl.kubernetes.io/default-container": "b" } } }), ["b", "a", "i"]);
  assert.equal(optionsOf(new URLSearchParams(), containersOf(pod)).container, "a");
  assert.equal(optionsOf(new URLSearchParams(), ["only"]).container, "");
  assert.deepEqual(containersOf(null), []);
});
