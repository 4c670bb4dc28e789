import assert from "node:assert/strict";
import { test } from "node:test";
import { predict, probability, type Additive, type Bounded, type Pairs, type Process, type Slalom } from "../src/formula";

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

// Weights 2 and 1 for the units and 1/2 for the sink, which stands for each unit that is removed.
const unbounded: Bounded = { kind: "bounded", inner_values: [[4], [-2]], importances: [LN2, 0], inner_sink: [-2], sink_importance: -LN2, centre: [0], curvature: [0], shapley: [[0], [0]], pairs: [], pair_values: [], pair_importances: [] };
const bounded: Bounded = { ...unbounded, curvature: [LN2 / 2] }; // tanh(ln 2) is 3/5

test("without curvature the bounded form is a weighted average, with the sink in the place of what is removed", () => {
  close(predict(unbounded, [1, 1])![0], (2 * 4 - 2) / 3);
  close(predict(unbounded, [1, 0])![0], (2 * 4 - 0.5 * 2) / 2.5);
  close(predict(unbounded, [0, 1])![0], (-2 - 0.5 * 2) / 1.5);
});

test("the bounded form squeezes that average into the range", () => {
  close(predict(bounded, [1, 1])![0], (3 / 5) * (2 / LN2)); // the average is 2
  close(predict(bounded, [0, 1])![0], (-3 / 5) * (2 / LN2)); // the average is -2
  close(predict({ ...bounded, inner_values: [[8], [-4]] }, [1, 1])![0], (15 / 17) * (2 / LN2)); // the average is 4
  close(predict({ ...bounded, inner_values: [[1e6], [1e6]] }, [1, 1])![0], 2 / LN2); // the end of the range
});

test("the range lies around its centre", () => {
  const moved: Bounded = { ...bounded, inner_values: [[14], [8]], inner_sink: [8], centre: [10] };
  for (const counts of [[1, 1], [1, 0], [0, 1], [0, 0], [3, 1], [0.5, 0.25]]) close(predict(moved, counts)![0], 10 + predict(bounded, counts)![0]!);
});

test("with ever less curvature the bounded form becomes the average", () => {
  for (const counts of [[1, 1], [1, 0], [0, 0], [2, 0.5]]) close(predict({ ...bounded, curvature: [1e-9] }, counts)![0], predict(unbounded, counts)![0]!);
});

test("copies add to a unit's weight, and stand in for no other unit that is removed", () => {
  close(predict(unbounded, [2, 1])![0], (4 * 4 - 2) / 5);
  close(predict(unbounded, [2, 0])![0], (4 * 4 - 0.5 * 2) / 4.5);
  close(predict(unbounded, [3, 3])![0], predict(unbounded, [1, 1])![0]!);
});

test("a part that is removed leaves as large a part of the sink", () => {
  close(predict(unbounded, [0.5, 1])![0], (4 - 2 - 0.25 * 2) / 2.25);
  close(predict(unbounded, [0.5, 0.25])![0], (4 - 0.5 - 1.25 * 0.5 * 2) / (1 + 0.25 + 1.25 * 0.5));
  close(predict(unbounded, [1.5, 0.5])![0], (3 * 4 - 1 - 0.25 * 2) / (3 + 0.5 + 0.25));
});

test("where nothing is kept, the bounded form gives the sink's value, however little the sink weighs", () => {
  close(predict(unbounded, [0, 0])![0], -2);
  close(predict(bounded, [0, 0])![0], (-3 / 5) * (2 / LN2));
  close(predict({ ...bounded, sink_importance: -2000 }, [0, 0])![0], (-3 / 5) * (2 / LN2));
});

test("a pair is one more unit where both of its units are, as often as the product of their counts says", () => {
  const heard: Bounded = { ...unbounded, pairs: [[0, 1]], pair_values: [[10]], pair_importances: [2 * LN2] }; // weight 4
  close(predict(heard, [1, 1])![0], (2 * 4 - 2 + 4 * 10) / 7);
  close(predict(heard, [2, 3])![0], (4 * 4 - 3 * 2 + 24 * 10) / 31);
  close(predict(heard, [0.5, 1])![0], (4 - 2 + 2 * 10 - 0.25 * 2) / 4.25);
  for (const counts of [[1, 0], [0, 1], [0, 0]]) close(predict(heard, counts)![0], predict(unbounded, counts)![0]!); // the sink does not stand for pairs
  close(predict({ ...heard, curvature: [1] }, [1, 1])![0], Math.tanh(46 / 7));
});

test("columns share importances, and each has its own range", () => {
  const classes: Bounded = { ...bounded, inner_values: [[4, 1], [-2, 4]], inner_sink: [-2, 0], centre: [0, 1], curvature: [LN2 / 2, 0], shapley: [[0, 0], [0, 0]] };
  const found = predict(classes, [1, 1])!;
  close(found[0], (3 / 5) * (2 / LN2));
  close(found[1], 2);
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
});

test("a process adds up the rows that were asked, by how like them a row is", () => {
  const one = { kind: "process", packed: [[1]], weights: [[2]], full: [3], reaches: [LN2, 2 * LN2], slopes: [5, 7], level: 11, length_level: 13, length_reach: 1 } as const;
  // The asked row keeps the first of two units.
  close(predict(one, [1, 0])![0], 3 + 2 * (11 + 7 + 13));
  close(predict(one, [0, 1])![0], 3 + 2 * (11 / 8 + 13));
  close(predict(one, [1, 1])![0], 3 + 2 * (11 / 4 + 13 * (2 / 3)));
  close(predict(one, [3, 2])![0], predict(one, [1, 1])![0]!);
  close(predict(one, [0, 0])![0], 3 + 2 * (11 / 2 + 7 + 13 / 2));
  close(predict(one, [0.5, 0])![0], 3 + 2 * (11 / Math.SQRT2 + 7 + 13 * (1.5 / 2)));
});

test("a packed row goes on in the next number after 48 units", () => {
  const units = 50;
  const long: Process = { kind: "process", packed: [[2 ** 47, 2]], weights: [[1]], full: [0], reaches: Array(units).fill(100), slopes: Array(units).fill(0), level: 1, length_level: 0, length_reach: 1 };
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
