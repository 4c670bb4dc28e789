import assert from "node:assert/strict";
import { test } from "node:test";
import { clipped, extent, percent, ranks, said, scale, signed, size, strengths, tickLabel, ticks, wholePercent } from "../src/numbers";

test("numbers for people", () => {
  assert.equal(signed(1.005), "+1.00");
  assert.equal(signed(-2.5), "−2.50");
  assert.equal(signed(0), "+0.00");
  assert.equal(signed(-0.00001), "−1.0e-5");
  assert.equal(signed(0.0018), "+0.0018");
  assert.equal(size(-0.25), "0.25");
  assert.equal(signed(1234567), "+1.2e+6");
  assert.equal(signed(null), "–");
  assert.equal(percent(0.1234), "12.3%");
  assert.equal(percent(0.99999), "> 99.9%");
  assert.equal(percent(0.00001), "< 0.1%");
  assert.equal(percent(1), "100.0%");
  assert.deepEqual([0.844, 1, 0, -0.18, null].map(wholePercent), ["84%", "100%", "0%", "−18%", "–"]);
});

test("a list shows the predicted class with its probability, and else the output", () => {
  assert.equal(said("negative", 0.9615, -3.22), "negative 96.2%");
  assert.equal(said("stars", null, -3.22), "stars −3.22");
  assert.equal(said(null, null, -3.22), "−3.22");
  assert.equal(said(null, null, null), "");
});

test("ticks are round and inside", () => {
  assert.deepEqual(ticks([0, 1], 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks([-210, 130], 4), [-200, -100, 0, 100]);
  assert.equal(tickLabel(-0.2), "−0.2");
});

test("scales and extents", () => {
  assert.equal(scale([0, 10], [100, 200])(5), 150);
  assert.deepEqual(extent([null, 2, 4], 0), [2, 4]);
  assert.deepEqual(extent([]), [-1, 1]);
  const [low, high] = extent([3]);
  assert.ok(low < 3 && high > 3);
});

test("strengths and ranks", () => {
  assert.deepEqual(strengths([1, -2, null]), [0.5, -1, 0]);
  assert.deepEqual(strengths([0, 0]), [0, 0]);
  assert.deepEqual(ranks([1, 3, 2]), [0, 1, 0.5]);
  assert.deepEqual(ranks([1, 1]), [0.5, 0.5]);
});

test("labels are clipped by characters, not by halves of them", () => {
  assert.equal(clipped("🙂🙂🙂", 2), "🙂…");
  assert.equal(clipped(" \n ", 5), "␣");
});
