import { test } from "node:test";
import assert from "node:assert/strict";
import { castOf, clock, countAt, sizeOf } from "./cast.ts";
import { BEGINNING, afterNotice, afterOutput, since, whose } from "./serial.ts";

const HEADER = '{"version": 2, "width": 80, "height": 24, "timestamp": 1, "title": "shop/vm-0", "tarmac": {"user": "jane", "kind": "console"}}';

test("a console goes on from the byte at which it broke", () => {
  assert.equal(since(BEGINNING), "");
  let progress = afterNotice(BEGINNING, { session: "s", attempt: 2, offset: 100, recorded: true, keyboard: true, writer: { user: "jane", since: "" } });
  progress = afterOutput(afterOutput(progress, 5), 7);
  assert.equal(since(progress), "2:112");
  assert.equal(since(afterNotice(progress, { gap: 50, offset: 162 })), "2:162");
  const restarted = afterNotice(progress, { attempt: 3, offset: 0 });
  assert.deepEqual([since(restarted), restarted.said], ["3:0", "The machine has been restarted."]);
});

test("who has the keyboard is told", () => {
  const mine = afterNotice(BEGINNING, { keyboard: true, writer: { user: "jane", since: "" } });
  assert.equal(whose(mine), "You have the keyboard.");
  const lost = afterNotice(mine, { keyboard: false, writer: { user: "joe", since: "" } });
  assert.equal(whose(lost), "joe has the keyboard; you watch.");
  assert.equal(whose(afterNotice(lost, { joined: "ann", watchers: 2 })), "joe has the keyboard; you watch.");
  assert.equal(whose(afterNotice(lost, { keyboard: false, writer: null })), "The keyboard is free; you watch.");
});

test("a recording is read as far as it can be", () => {
  const cast = castOf(`${HEADER}\n[0.5, "o", "hello"]\n[1, "r", "120x40"]\nnonsense\n[2, "i", "typed"]\n["x", "o", 1]\n[3, "m", "end"]\n[4, "o", "cu`);
  assert.deepEqual(cast?.events.map((each) => each.code), ["o", "r", "m"]);
  assert.deepEqual([cast?.bad, cast?.duration, cast?.user], [4, 3, "jane"]);
  assert.equal(castOf("<html>"), null);
  assert.equal(castOf('{"version": 1}'), null);
  assert.deepEqual([castOf('{"version": 2, "width": 1e9, "height": -1}')?.width, castOf('{"version": 2, "width": 1e9, "height": 9}')?.width], [80, 500]);
});

test("a moment is found among events", () => {
  const events = [0, 1, 1, 2].map((time) => ({ time, code: "o" as const, text: "" }));
  assert.deepEqual([-1, 0, 0.5, 1, 9].map((time) => countAt(events, time)), [0, 1, 1, 3, 4]);
  assert.deepEqual([sizeOf("120x40"), sizeOf("99999x1"), sizeOf("0x0"), sizeOf("a")], [[120, 40], [500, 1], null, null]);
  assert.equal(clock(75.9), "1:15");
});
