import assert from "node:assert/strict";
import { test } from "node:test";
import { lengthEffect, predict, probability, type Additive, type Slalom } from "../src/formula";

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

test("an additive method takes away the scores of what is left out and adds those of repeats", () => {
  const additive: Additive = { kind: "linear", unit_scores: [[1, 10], [0.25, 20]], full: [2, 5] };
  assert.deepEqual(predict(additive, [1, 1]), [2, 5]);
  assert.deepEqual(predict(additive, [0, 1]), [1, -5]);
  assert.deepEqual(predict(additive, [0, 3]), [1.5, 35]);
  assert.deepEqual(predict(additive, [0, 0]), [0.75, -25]);
});

test("probabilities", () => {
  close(probability("binary", [Math.log(3)], 0, 1)!, 0.75);
  close(probability("binary", [Math.log(3)], 0, -1)!, 0.25);
  close(probability("multilabel", [0, Math.log(3)], 1, 1)!, 0.75);
  close(probability("multiclass", [Math.log(3), 0, 0], 0, 1)!, 0.6);
  close(probability("multiclass", [1000, 0, 0], 0, 1)!, 1);
  assert.equal(probability("regression", [4], 0, 1), null);
});
