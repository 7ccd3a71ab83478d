import assert from "node:assert/strict";
import { test } from "node:test";
import { crashOf } from "./crash.ts";

const ended = (exitCode: number, finishedAt: string) => ({ exitCode, finishedAt, reason: "Error" });

test("the container that ended last with an error is the one that crashed", () => {
  const crash = crashOf({ status: { containerStatuses: [
    { name: "old", restartCount: 1, lastState: { terminated: ended(2, "2026-01-01T00:00:00Z") } },
    { name: "main", restartCount: 7, lastState: { terminated: ended(1, "2026-01-01T00:00:09Z") } },
  ] } });
  assert.deepEqual(crash, { container: "main", exitCode: 1, reason: "Error", restarts: 7, finished: "2026-01-01T00:00:09Z", previous: true });
});

test("the log of a container that has not been restarted is its present one", () => {
  assert.equal(crashOf({ status: { initContainerStatuses: [{ name: "init", state: { terminated: ended(3, "") } }] } })?.previous, false);
});

test("a container that completed has not crashed", () => {
  assert.equal(crashOf({ status: { containerStatuses: [{ name: "job", state: { terminated: ended(0, "") } }] } }), null);
  assert.equal(crashOf({}), null);
});
