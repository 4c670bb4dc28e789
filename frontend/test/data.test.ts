import assert from "node:assert/strict";
import { test } from "node:test";
import { DataError, readExplanation, readIndex } from "../src/data";

const good = () => ({
  model: "m", method: "slalom", granularity: "word", removal: "delete", kind: "binary", labels: ["no", "yes"], target: 1, full: [0.5], highlight: "shapley",
  function: { kind: "slalom", values: [[[1], [2]]], importances: [[0, 0]], sink_values: null, sink_importances: null },
  units: ["a", "b"], spans: [[0, 0, 1], [0, 2, 3]], occurrences: [], parts: [[["a", [0]], [" ", []], ["b", [1]]]], left_out: 0,
  columns: [{ scores: { value: [1, 2], importance: [0, 0] }, errors: { value: [0.1, null] }, sources: { value: "measured", importance: "fitted" }, sink: null, fidelity: null, trust: "Not tested.", effect: [true, false], range: null }],
  calls: 3, calls_check: 0, notes: [],
});
const agreement = { r2: 0.5, mse: 1, rows: 10 };
const index = () => ({ format: "slalom-view", version: 2, title: "t", count: 1, texts: [{ text: "a b", label: "yes", probability: 0.62, prediction: 0.5, names: ["slalom m"], items: [0] }] });
const read = (change: (data: any) => void) => {
  const data = good();
  change(data);
  return readExplanation(JSON.stringify(data), 0);
};

test("good data are read", () => {
  assert.equal(read(() => null).units[1], "b");
  assert.equal(readIndex(JSON.stringify(index())).texts.length, 1);
});

test("fidelity may carry an interval, and more than is shown", () => {
  const parts = { few: { ...agreement, r2_low: 0.4, r2_high: 0.6, largest_change: 0.2, new: 1 }, any: { ...agreement, r2: null, largest_change: null }, linear: { few: agreement, any: agreement }, one_score: null, changed: 7, calls: 10 };
  const found = read((data) => (data.columns[0].fidelity = parts)).columns[0]!.fidelity!;
  assert.equal(found.few.r2_low, 0.4);
  assert.equal(found.linear!.any.r2, 0.5);
  assert.equal(found.one_score, null);
  assert.equal(found.changed, 7);
});

const bounded = () => ({
  kind: "bounded", inner_values: [[1], [2]], importances: [0.5, -0.5], inner_sink: [0], sink_importance: 0, centre: [0.25], curvature: [0.5], shapley: [[1], [-1]],
  pairs: [[0, 1]], pair_values: [[3]], pair_importances: [0.25],
});

test("the bounded form is read, and what is wrong with it is named", () => {
  assert.deepEqual(read((data) => (data.function = bounded())).function, bounded());
  const alone = { ...bounded(), pairs: [], pair_values: [], pair_importances: [] };
  assert.deepEqual(read((data) => (data.function = alone)).function, alone);
  const cases: [object, RegExp][] = [
    [{ inner_values: [[1]] }, /function\.inner_values has 1 entries, where 2 should be/],
    [{ importances: [0, null] }, /function\.importances\[1\] is null, where a number should be/],
    [{ inner_sink: [0, 1] }, /function\.inner_sink has 2 entries, where 1 should be/],
    [{ sink_importance: null }, /function\.sink_importance is null, where a number should be/],
    [{ centre: [] }, /function\.centre has 0 entries, where 1 should be/],
    [{ curvature: [-0.5] }, /function\.curvature\[0\] is -0\.5, where a number of at least 0 should be/],
    [{ shapley: null }, /function\.shapley is null, where a list should be/],
    [{ pairs: undefined }, /function\.pairs is missing, where a list should be/],
    [{ pairs: [[0, 2]] }, /function\.pairs\[0\]\[1\] names unit 2, and there are 2/],
    [{ pairs: [[0]] }, /function\.pairs\[0\] has 1 entries, where 2 should be/],
    [{ pair_values: [] }, /function\.pair_values has 0 entries, where 1 should be/],
    [{ pair_importances: [null] }, /function\.pair_importances\[0\] is null, where a number should be/],
    [{ two_scores: null }, /unknown field "two_scores"/],
  ];
  for (const [change, message] of cases) assert.throws(() => read((data) => (data.function = { ...bounded(), ...change })), message);
});

test("the range and the units with an effect are read", () => {
  const found = read((data) => (data.columns[0].range = [-3, 4])).columns[0]!;
  assert.deepEqual(found.range, [-3, 4]);
  assert.deepEqual(found.effect, [true, false]);
});

test("functions with pairs and processes are read, and what is wrong with them is named", () => {
  const pairs = { kind: "pairs", mains: [[1], [2]], pairs: [[0, 1]], joints: [[3]], full: [0.5] };
  const process = { kind: "process", packed: [[1], [3]], weights: [[1], [2]], full: [0.5], reaches: [1, 1], slopes: [1, 1], level: 1, length_level: 0, length_reach: 1 };
  for (const made of [pairs, process]) assert.deepEqual(read((data) => (data.function = made)).function, made);
  const cases: [object, RegExp][] = [
    [{ ...pairs, pairs: [[0, 2]] }, /function\.pairs\[0\]\[1\] names unit 2, and there are 2/],
    [{ ...pairs, joints: [] }, /function\.joints has 0 entries, where 1 should be/],
    [{ ...process, packed: [[1, 0], [3]] }, /function\.packed\[0\] has 2 entries, where 1 should be/],
    [{ ...process, weights: [[1]] }, /function\.weights has 1 entries, where 2 should be/],
    [{ ...process, level: null }, /function\.level is null, where a number should be/],
    [{ ...process, place_level: 0 }, /unknown field "place_level"/],
  ];
  for (const [made, message] of cases) assert.throws(() => read((data) => (data.function = made)), message);
});

test("what is wrong is named", () => {
  const cases: [(data: any) => void, RegExp][] = [
    [(data) => delete data.method, /explanation 1\.method is missing, where a text should be/],
    [(data) => (data.extra = 1), /unknown field "extra"/],
    [(data) => (data.full = [null]), /explanation 1\.full\[0\] is null, where a number should be/],
    [(data) => (data.function.kind = "cubic"), /function\.kind is "cubic"/],
    [(data) => data.function.values[0].pop(), /function\.values\[0\] has 1 entries, where 2 should be/],
    [(data) => (data.function.values = []), /function\.values is \[\], where a list of heads should be/],
    [(data) => (data.columns[0].scores.beauty = [1, 2]), /unknown score "beauty"/],
    [(data) => (data.columns = [null]), /no scores for it/],
    [(data) => (data.parts = [[["a", [5]]]]), /names unit 5, and there are 2/],
    [(data) => (data.spans = [[0, 0, 1]]), /spans has 1 entries, where 2 should be/],
    [(data) => delete data.columns[0].sources, /columns\[0\]\.sources is missing, where an object should be/],
    [(data) => (data.columns[0].sources.value = "guessed"), /sources\.value is "guessed", where "measured" or "fitted" should be/],
    [(data) => (data.columns[0].fidelity = { few: agreement, any: agreement, linear: null }), /fidelity\.one_score is missing/],
    [(data) => (data.columns[0].fidelity = { few: agreement, any: agreement, linear: { few: agreement }, one_score: null }), /fidelity\.linear\.any is missing/],
    [(data) => (data.columns[0].fidelity = { local: agreement, wide: agreement, linear: null, one_score: null }), /fidelity\.few is missing/],
    [(data) => (data.columns[0].fidelity = { few: agreement, any: agreement, linear: null, one_score: null, changed: 0.5 }), /fidelity\.changed is 0\.5, where a whole number should be/],
    [(data) => (data.columns[0].fidelity = { few: { ...agreement, largest_change: "1" }, any: agreement, linear: null, one_score: null }), /few\.largest_change is "1", where a number should be/],
    [(data) => (data.columns[0].effect = [true]), /effect has 1 entries, where 2 should be/],
    [(data) => (data.columns[0].effect = [true, 1]), /effect\[1\] is 1, where true or false should be/],
    [(data) => (data.columns[0].range = [0]), /range has 1 entries, where 2 should be/],
    [(data) => delete data.columns[0].range, /range is missing/],
    [(data) => (data.function.length_offsets = null), /unknown field "length_offsets"/],
    [(data) => (data.highlight = "beauty"), /highlight is "beauty", where "value" or/],
    [(data) => (data.target = -1), /target is -1, where a whole number should be/],
  ];
  for (const [change, message] of cases) assert.throws(() => read(change), (error: Error) => error instanceof DataError && message.test(error.message));
});

test("reports of another format or version are refused", () => {
  assert.throws(() => readIndex(JSON.stringify({ ...index(), version: 1 })), /version 1 and this page reads version 2/);
  assert.throws(() => readIndex(JSON.stringify({ ...index(), format: "x" })), /format is "x"/);
  assert.throws(() => readIndex("[]"), DataError);
  assert.throws(() => readIndex("{"), /not JSON/);
});
