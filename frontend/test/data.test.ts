import assert from "node:assert/strict";
import { test } from "node:test";
import { DataError, readExplanation, readIndex } from "../src/data";

const good = () => ({
  model: "m", method: "slalom", granularity: "word", removal: "delete", kind: "binary", labels: ["no", "yes"], target: 1, full: [0.5], highlight: "removal",
  function: { kind: "slalom", values: [[[1], [2]]], importances: [[0, 0]], sink_values: null, sink_importances: null },
  units: ["a", "b"], spans: [[0, 0, 1], [0, 2, 3]], occurrences: [], parts: [[["a", [0]], [" ", []], ["b", [1]]]], left_out: 0,
  columns: [{ scores: { value: [1, 2], importance: [0, 0] }, errors: { value: [0.1, null] }, sources: { value: "measured", importance: "fitted" }, sink: null, fidelity: null, trust: "Not tested." }],
  calls: 3, calls_check: 0, notes: [],
});
const agreement = { r2: 0.5, mse: 1, rows: 10 };
const index = () => ({ format: "slalom-view", version: 1, title: "t", count: 1, texts: [{ text: "a b", label: "yes", probability: 0.62, prediction: 0.5, names: ["slalom m"], items: [0] }] });
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
  const parts = { local: { ...agreement, r2_low: 0.4, r2_high: 0.6, new: 1 }, wide: { ...agreement, r2: null }, linear_local: agreement, linear_wide: agreement, two_scores: null };
  assert.equal(read((data) => (data.columns[0].fidelity = parts)).columns[0]!.fidelity!.local.r2_low, 0.4);
});

test("what a method lacks of the fidelity is null", () => {
  const parts = { local: agreement, wide: agreement, linear_local: null, linear_wide: null, two_scores: { local: agreement, wide: agreement } };
  const found = read((data) => (data.columns[0].fidelity = parts)).columns[0]!.fidelity!;
  assert.equal(found.linear_wide, null);
  assert.equal(found.two_scores!.wide.r2, 0.5);
});

const two = () => ({ kind: "two scores", values: [[1], [2]], importances: [0, 0], sink_value: [0], sink_importance: 0 });

const pairs = () => ({ kind: "interactions", pairs: [[0, 1]], strengths: [[2]], errors: [[0]], shares: [0.5] });

test("interactions may be there", () => {
  const found = read((data) => Object.assign(data.function, { interactions: pairs() })).function;
  assert.deepEqual(found.kind === "slalom" && found.interactions, pairs());
});

test("two scores and repeats may be there, be null or be left out", () => {
  for (const parts of [{ two_scores: two(), repeats: [[0.5], [1]] }, { two_scores: two(), repeats: null }, { two_scores: null, repeats: null }]) {
    const found = read((data) => Object.assign(data.function, parts)).function;
    assert.deepEqual(found.kind === "slalom" && [found.two_scores, found.repeats], [parts.two_scores, parts.repeats]);
  }
});

test("functions with pairs and processes are read, and what is wrong with them is named", () => {
  const pairs = { kind: "pairs", mains: [[1], [2]], pairs: [[0, 1]], joints: [[3]], full: [0.5] };
  const process = { kind: "process", packed: [[1], [3]], weights: [[1], [2]], full: [0.5], reaches: [1, 1], slopes: [1, 1], level: 1, length_level: 0, length_reach: 1, place_level: 0, growth: 0 };
  for (const made of [pairs, process]) assert.deepEqual(read((data) => (data.function = made)).function, made);
  const cases: [object, RegExp][] = [
    [{ ...pairs, pairs: [[0, 2]] }, /function\.pairs\[0\]\[1\] names unit 2, and there are 2/],
    [{ ...pairs, joints: [] }, /function\.joints has 0 entries, where 1 should be/],
    [{ ...process, packed: [[1, 0], [3]] }, /function\.packed\[0\] has 2 entries, where 1 should be/],
    [{ ...process, weights: [[1]] }, /function\.weights has 1 entries, where 2 should be/],
    [{ ...process, level: null }, /function\.level is null, where a number should be/],
  ];
  for (const [made, message] of cases) assert.throws(() => read((data) => (data.function = made)), message);
});

test("length offsets may be there, be null or be left out", () => {
  for (const offsets of [[[0], [0.5], [0]], null]) {
    const found = read((data) => (data.function.length_offsets = offsets)).function;
    assert.deepEqual(found.kind === "slalom" && found.length_offsets, offsets);
  }
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
    [(data) => (data.function.length_offsets = [[0], [0]]), /function\.length_offsets has 2 entries, where 3 should be/],
    [(data) => (data.function.length_offsets = [[0], [0, 1], [0]]), /function\.length_offsets\[1\] has 2 entries, where 1 should be/],
    [(data) => (data.function.length_offsets = [[0], [null], [0]]), /function\.length_offsets\[1\]\[0\] is null, where a number should be/],
    [(data) => (data.function.nearest = null), /unknown field "nearest"/],
    [(data) => (data.function.two_scores = { ...two(), kind: "slalom" }), /two_scores\.kind is "slalom", where "two scores" should be/],
    [(data) => (data.function.two_scores = { ...two(), values: [[1]] }), /two_scores\.values has 1 entries, where 2 should be/],
    [(data) => (data.function.two_scores = { ...two(), sink_importance: null }), /two_scores\.sink_importance is null, where a number should be/],
    [(data) => (data.function.interactions = { ...pairs(), pairs: [[0, 2]] }), /interactions\.pairs.* names unit 2, and there are 2/],
    [(data) => (data.function.interactions = { ...pairs(), errors: [] }), /interactions\.errors has 0 entries, where 1 should be/],
    [(data) => (data.function.repeats = [[1]]), /function\.repeats has 1 entries, where 2 should be/],
    [(data) => delete data.columns[0].sources, /columns\[0\]\.sources is missing, where an object should be/],
    [(data) => (data.columns[0].sources.value = "guessed"), /sources\.value is "guessed", where "measured" or "fitted" should be/],
    [(data) => (data.columns[0].fidelity = { local: agreement, wide: agreement, linear_local: null, linear_wide: null }), /fidelity\.two_scores is missing/],
    [(data) => (data.highlight = "beauty"), /highlight is "beauty", where "value" or/],
    [(data) => (data.target = -1), /target is -1, where a whole number should be/],
  ];
  for (const [change, message] of cases) assert.throws(() => read(change), (error: Error) => error instanceof DataError && message.test(error.message));
});

test("reports of another format or version are refused", () => {
  assert.throws(() => readIndex(JSON.stringify({ ...index(), version: 2 })), /version 2 and this page reads version 1/);
  assert.throws(() => readIndex(JSON.stringify({ ...index(), format: "x" })), /format is "x"/);
  assert.throws(() => readIndex("[]"), DataError);
  assert.throws(() => readIndex("{"), /not JSON/);
});
