import assert from "node:assert/strict";
import { test } from "node:test";
import { lengthEffect, predict, probability, type Additive, type Pairs, type Process, type Slalom, type TwoScores } from "../src/formula";

const close = (found: number | undefined, expected: number) => assert.ok(Math.abs(found! - expected) < 1e-12, `${found} is not ${expected}`);
const LN2 = Math.log(2);
const plain: Slalom = { kind: "slalom", values: [[[3], [-1]]], importances: [[LN2, 0]], sink_values: null, sink_importances: null };
const withSink: Slalom = { ...plain, sink_values: [[0.5]], sink_importances: [0] };

test("one head is a weighted average", () => {
  close(predict(plain, [1, 1])![0], (2 * 3 - 1) / 3);
  close(predict(plain, [1, 0])![0], 3);
  close(predict(plain, [0, 4])![0], -1);
  close(predict(plain, [2, 3])![0], (4 * 3 - 3) / 7);
});

test("the sink is always there", () => {
  close(predict(withSink, [1, 1])![0], (6 - 1 + 0.5) / 4);
  close(predict(withSink, [0, 0])![0], 0.5);
});

test("without a sink nothing is known of an empty text", () => assert.equal(predict(plain, [0, 0]), null));

test("heads add", () => {
  const two: Slalom = { kind: "slalom", values: [[[3], [-1]], [[1], [5]]], importances: [[LN2, 0], [0, 0]], sink_values: null, sink_importances: null };
  close(predict(two, [1, 1])![0], 5 / 3 + 3);
});

test("columns share importances", () => {
  const classes: Slalom = { ...plain, values: [[[3, 0], [-1, 9]]] };
  const found = predict(classes, [1, 1])!;
  close(found[0], 5 / 3);
  close(found[1], 3);
});

test("a shift of the importances changes nothing, however far", () => {
  for (const shift of [-900, 900]) {
    const moved: Slalom = { ...withSink, importances: [[LN2 + shift, shift]], sink_importances: [shift] };
    close(predict(moved, [1, 1])![0], 5.5 / 4);
  }
});

test("what remains is compared with what remains", () => {
  const steep: Slalom = { ...plain, values: [[[3], [-1], [2]]], importances: [[2000, 0, 0]] };
  close(predict(steep, [0, 1, 1])![0], 0.5);
});

test("lengths add what the number of units kept says, linear between whole numbers and as for the whole text beyond it", () => {
  const lengths: Slalom = { ...withSink, length_offsets: [[0], [0.25], [0]] };
  close(predict(lengths, [1, 0])![0], predict(withSink, [1, 0])![0]! + 0.25);
  close(predict(lengths, [0, 1])![0], predict(withSink, [0, 1])![0]! + 0.25);
  for (const same of [[0, 0], [1, 1], [2, 0], [2, 3]]) close(predict(lengths, same)![0], predict(withSink, same)![0]!);
  close(lengthEffect(lengths, [0.5, 0.9])![0], 0.15);
  close(lengthEffect(lengths, [0.1, 0.1])![0], 0.05);
  close(predict(lengths, [0.5, 0.9])![0], predict(withSink, [0.5, 0.9])![0]! + 0.15);
});

test("each column has its own lengths, heads share them", () => {
  const two: Slalom = { kind: "slalom", values: [[[3, 0], [-1, 9]], [[1, 2], [5, 2]]], importances: [[LN2, 0], [0, 0]], sink_values: null, sink_importances: null };
  const found = predict({ ...two, length_offsets: [[0, 0], [0.5, -2], [0, 0]] }, [0, 1])!;
  close(found[0], -1 + 5 + 0.5);
  close(found[1], 9 + 2 - 2);
  assert.equal(predict({ ...two, length_offsets: [[0, 0], [1, 1], [0, 0]] }, [0, 0]), null);
});

test("where no lengths were fitted they say nothing", () => {
  assert.equal(lengthEffect(plain, [1, 0]), null);
  assert.equal(lengthEffect({ ...plain, length_offsets: null }, [1, 0]), null);
  assert.equal(lengthEffect({ kind: "linear", unit_scores: [[1]], full: [2] }, [0]), null);
});

// Weights 2 and 1, and 1 for what is missing. The heads weigh everything alike.
const two: TwoScores = { kind: "two scores", values: [[3], [-1]], importances: [LN2, 0], sink_value: [0.5], sink_importance: 0 };
const corrected: Slalom = { ...withSink, values: [[[2], [1]]], importances: [[0, 0]], two_scores: two };

test("with two scores, deletions are predicted by the heads", () => {
  for (const row of [[1, 1], [1, 0], [0, 1], [0, 0], [0.5, 0.25]]) {
    assert.deepEqual(predict(corrected, row), predict({ ...corrected, two_scores: null }, row));
  }
});

test("a text filled with one unit, or with two, is what the two scores say", () => {
  close(predict(corrected, [2, 0])![0], 3);
  close(predict(corrected, [0, 2])![0], -1);
  close(predict(corrected, [0, 9])![0], -1);
  const four: Slalom = { ...corrected, values: [[[2], [1], [0], [0]]], importances: [[0, 0, 0, 0]], two_scores: { ...two, values: [[3], [-1], [7], [7]], importances: [LN2, 0, 0, 0] } };
  // Half and half: G is (2*2*3 - 2*1) / 6, and a third of what is corrected counts: one of three units after the first is no copy.
  const once = (2 * 3 - 1 + 0.5 * 0.5) / 3.5; // G of the two units once each: half of the units are missing
  close(predict(four, [2, 2, 0, 0])![0], 10 / 6 + (1 / 3) * ((2 + 1 + 0.5) / 3 - once));
});

test("a doubled unit counts what the two scores miss of it", () => {
  const doubled = (2 * 2 * 3 - 1) / 5;
  const correction = (2 + 1 + 0.5) / 3 - 5 / 3;
  close(predict(corrected, [2, 1])![0], doubled + correction / 2);
  const missed: Slalom = { ...corrected, repeats: [[0.4], [8]] };
  close(predict(missed, [2, 1])![0], doubled + (correction + 0.4) / 2);
  close(predict(missed, [4, 1])![0], (2 * 4 * 3 - 1) / 9 + (correction + 1.5 * 0.4) / 4);
});

test("the sink of two scores counts what is missing", () => {
  const three: Slalom = { ...corrected, values: [[[0], [0], [0]]], importances: [[0, 0, 0]], sink_values: [[0]], two_scores: { ...two, values: [[3], [-1], [7]], importances: [LN2, 0, 0] } };
  // Two copies and one unit missing: of three units, none is; of two copies alone, a third is.
  close(predict(three, [2, 0, 0])![0], (2 * 2 * 3 + 0.5 / 3) / (4 + 1 / 3));
  const once = (2 * 3 - 1 + 0.5 / 3) / (3 + 1 / 3);
  close(predict(three, [2, 1, 0])![0], (2 * 2 * 3 - 1) / 5 + (0 - once) / 2);
});

test("lengths count as far as corrections have a say", () => {
  const lengths: Slalom = { ...corrected, length_offsets: [[0], [0.25], [0]] };
  close(lengthEffect(lengths, [1, 0])![0], 0.25);
  close(lengthEffect(lengths, [2, 0])![0], 0);
  const four: Slalom = { ...plain, values: [[[1], [1], [1], [1]]], importances: [[0, 0, 0, 0]], two_scores: { ...two, values: [[1], [1], [1], [1]], importances: [0, 0, 0, 0], sink_value: [1] }, length_offsets: [[0], [0], [0.6], [0], [0]] };
  close(lengthEffect(four, [3, 1, 0, 0])![0], 0.2);
  close(predict(four, [3, 1, 0, 0])![0], 1.2);
});

test("an additive method takes away the scores of what is left out and adds those of repeats", () => {
  const additive: Additive = { kind: "linear", unit_scores: [[1, 10], [0.25, 20]], full: [2, 5] };
  assert.deepEqual(predict(additive, [1, 1]), [2, 5]);
  assert.deepEqual(predict(additive, [0, 1]), [1, -5]);
  assert.deepEqual(predict(additive, [0, 3]), [1.5, 35]);
  assert.deepEqual(predict(additive, [0, 0]), [0.75, -25]);
});

test("pairs count where both of their units are missing", () => {
  const pairs: Pairs = { kind: "pairs", mains: [[1, 0], [2, 0], [4, 1]], pairs: [[0, 2], [1, 2]], joints: [[8, 2], [16, 4]], full: [3, 5] };
  assert.deepEqual(predict(pairs, [1, 1, 1]), [3, 5]);
  assert.deepEqual(predict(pairs, [0, 1, 1]), [2, 5]);
  assert.deepEqual(predict(pairs, [0, 1, 0]), [3 - 5 - 8, 5 - 1 - 2]);
  assert.deepEqual(predict(pairs, [0, 0, 0]), [3 - 7 - 24, 5 - 1 - 6]);
  assert.deepEqual(predict(pairs, [2, 1, 2]), [3 + 5, 5 + 1]);
  assert.deepEqual(predict(pairs, [0.5, 1, 0.5]), [3 - 2.5 - 2, 5 - 0.5 - 0.5]);
  assert.equal(lengthEffect(pairs, [0, 1, 1]), null);
});

test("a process adds up the rows that were asked, by how like them a row is", () => {
  const one = { kind: "process", packed: [[1]], weights: [[2]], full: [3], reaches: [LN2, 2 * LN2], slopes: [5, 7], level: 11, length_level: 13, length_reach: 1, place_level: 0, growth: 0 } as const;
  // The asked row keeps the first of two units.
  close(predict(one, [1, 0])![0], 3 + 2 * (11 + 7 + 13));
  close(predict(one, [0, 1])![0], 3 + 2 * (11 / 8 + 13));
  close(predict(one, [1, 1])![0], 3 + 2 * (11 / 4 + 13 * (2 / 3)));
  close(predict(one, [3, 2])![0], predict(one, [1, 1])![0]!);
  close(predict(one, [0, 0])![0], 3 + 2 * (11 / 2 + 7 + 13 / 2));
  close(predict(one, [0.5, 0])![0], 3 + 2 * (11 / Math.SQRT2 + 7 + 13 * (1.5 / 2)));
  // Two units of two are deleted, and one in the asked row: (3 / 3) * (2 / 3) to the power of 2.
  close(predict({ ...one, growth: 2 }, [0, 0])![0], 3 + 2 * ((4 / 9) * (11 / 2 + 13 / 2) + 7));
});

test("a process beside a share of the heads", () => {
  const process = { kind: "process", packed: [[1]], weights: [[2]], full: [3], reaches: [LN2, 2 * LN2], slopes: [5, 7], level: 11, length_level: 13, length_reach: 1, place_level: 0, growth: 1 } as const;
  const heads: Slalom = { kind: "slalom", values: [[[1], [4]]], importances: [[0, LN2]], sink_values: null, sink_importances: null };
  const both: Slalom = { ...heads, correction: { kind: "correction", share: 0.25, process, shapley: [[0], [0]] } };
  close(predict(both, [1, 1])![0], predict(process, [1, 1])![0]!);
  for (const counts of [[1, 0], [0, 1]]) close(predict(both, counts)![0], predict(process, counts)![0]! + 0.25 * 0.5 * (predict(heads, counts)![0]! - 3));
  assert.equal(predict(both, [0, 0]), null);
});

test("units that have moved equally far make rows alike", () => {
  const still = { kind: "process", packed: [[0b1010]], weights: [[1]], full: [0], reaches: [0, 0, 0, 0], slopes: [0, 0, 0, 0], level: 0, length_level: 0, length_reach: 1, growth: 0 } as const;
  const moving: Process = { ...still, place_level: 3 };
  close(predict(moving, [1, 1, 1, 1])![0], 0); // nothing has moved
  close(predict(moving, [0, 1, 0, 1])![0], 6); // the second by one and the last by two, as in the row
  close(predict(moving, [0, 1, 1, 1])![0], 3); // the last by one only
  close(predict(moving, [0.5, 1, 0, 1])![0], 3 * (0.5 + 0.5));
});

test("a packed row goes on in the next number after 48 units", () => {
  const units = 50;
  const long: Process = { kind: "process", packed: [[2 ** 47, 2]], weights: [[1]], full: [0], reaches: Array(units).fill(100), slopes: Array(units).fill(0), level: 1, length_level: 0, length_reach: 1, place_level: 0, growth: 0 };
  const kept = (...places: number[]) => Array.from({ length: units }, (_, unit) => (places.includes(unit) ? 1 : 0));
  close(predict(long, kept(47, 49))![0], 1);
  for (const other of [kept(46, 49), kept(47, 48), kept(47)]) assert.ok(predict(long, other)![0]! < 1e-40);
});

test("probabilities", () => {
  close(probability("binary", [Math.log(3)], 0, 1)!, 0.75);
  close(probability("binary", [Math.log(3)], 0, -1)!, 0.25);
  close(probability("multilabel", [0, Math.log(3)], 1, 1)!, 0.75);
  close(probability("multiclass", [Math.log(3), 0, 0], 0, 1)!, 0.6);
  close(probability("multiclass", [1000, 0, 0], 0, 1)!, 1);
  assert.equal(probability("regression", [4], 0, 1), null);
});
