import assert from "node:assert/strict";
import { test } from "node:test";
import type { Explanation, Score } from "../src/data";
import type { Bounded } from "../src/formula";
import { Model, removalOf } from "../src/model";

const scores: Partial<Record<Score, number[]>> = { value: [3, -1, 0], importance: [1, 0, -1], removal: [0.5, -0.25, 0], shapley: [2, -1, 0.01] };
const explained = (change: Partial<Explanation> = {}): Explanation => ({
  model: "m", method: "slalom", granularity: "word", removal: "hide", kind: "binary", labels: ["no", "yes"], target: 1, full: [0.5], highlight: "shapley",
  function: { kind: "bounded", inner_values: [[3], [-1], [0]], importances: [1, 0, -1], inner_sink: [0], sink_importance: 0, centre: [0.5], curvature: [0], shapley: [[2], [-1], [0.01]], pairs: [], pair_values: [], pair_importances: [] },
  units: ["a", "b", "c"], spans: [[0, 0, 1], [0, 2, 3], [0, 4, 5]], occurrences: [], parts: [], left_out: 0,
  columns: [{ scores, errors: { shapley: [0.5, 0.25, 0.5] }, sources: { shapley: "fitted" }, sink: [0, 0], fidelity: null, trust: "Good.", effect: [true, true, false], range: [-3, 4] }],
  calls: 3, calls_check: 0, notes: [], ...change,
});

test("colours and ranks go by the highlighted score, and value, importance and Shapley value are in front", () => {
  const model = new Model(explained());
  assert.equal(model.score, "shapley");
  assert.deepEqual(model.shownNames, ["value", "importance", "shapley"]);
  assert.ok(model.hasMore);
  model.showMore(true);
  assert.deepEqual(model.shownNames, ["value", "importance", "removal", "shapley"]);
});

test("a unit without effect has no numbers to read", () => {
  const model = new Model(explained());
  assert.deepEqual(model.scores("shapley"), [2, -1, null]);
  assert.deepEqual(model.scores("importance"), [1, 0, null]);
  assert.equal(model.error("shapley", 0), 0.5);
  assert.equal(model.error("shapley", 2), null);
  assert.equal(model.without, 1);
  assert.deepEqual(model.fitted("value"), [3, -1, 0]);
});

test("the first of two classes has the other sign, and its range the other ends", () => {
  assert.deepEqual(new Model(explained()).range(), [-3, 4]);
  const first = new Model(explained({ target: 0 }));
  assert.deepEqual(first.range(), [-4, 3]);
  assert.deepEqual(first.scores("value"), [-3, 1, null]);
  assert.deepEqual(first.scores("importance"), [1, 0, null]);
});

test("bounded forms and SLALOMs have two scores, other functions one", () => {
  const additive = new Model(explained({ function: { kind: "linear", unit_scores: [[1], [2], [3]], full: [0.5] } }));
  assert.ok(additive.additive && !additive.bounded);
  assert.ok(!new Model(explained()).additive);
  const paper = new Model(explained({ function: { kind: "slalom", values: [[[1], [2], [3]]], importances: [[0, 0, 0]], sink_values: null, sink_importances: null } }));
  assert.ok(!paper.additive && !paper.bounded);
});

test("ways to remove have names for readers", () => {
  assert.equal(removalOf("hide"), "hidden from the attention");
  assert.equal(removalOf("other"), 'removed by "other"');
});

test("what is heard together is listed by importance, with values after the bound and the target's sign", () => {
  const heard = { ...explained().function as Bounded, pairs: [[0, 1], [1, 2]], pair_values: [[0.5], [4.5]], pair_importances: [-1, 2], curvature: [0.5] };
  assert.deepEqual(new Model(explained()).together(), []);
  const bent = 0.5 + Math.tanh(0.5 * 4) / 0.5;
  assert.deepEqual(new Model(explained({ function: heard })).together(), [{ texts: ["b", "c"], value: bent, importance: 2 }, { texts: ["a", "b"], value: 0.5, importance: -1 }]);
  assert.equal(new Model(explained({ function: heard, target: 0 })).together()[0]!.value, -bent);
});
