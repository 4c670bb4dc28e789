import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces, storedExplanation, type StoredText, type StoredUnit } from "../src/app/stored";

const unit = (start: number, end: number, value: number | null, part = 0): StoredUnit =>
  ({ start, end, part, unit: "u", value, importance: null, removal: value, value_se: null, importance_se: null, removal_se: 0.5 });
const TEXT: StoredText = {
  number: 1, id: "1", status: "explained", problem: null, text: "\u{1F3A5} good film", text_pair: null, target: "positive", predicted: "positive", prediction: 1.5,
  sink: null, units: [unit(2, 6, 2), unit(7, 11, -1)], fidelity: { few_r2: 0.9, few_mse: 0.1, any_r2: null, any_mse: 0.2, linear_few_r2: null, linear_any_r2: null, one_score_few_r2: 0.7, one_score_any_r2: 0.6 }, calls: 60, seed: 0, notes: [],
};

test("a text is cut by characters, and nothing of it is lost", () => {
  assert.deepEqual(pieces(TEXT.text!, 0, TEXT.units), [["\u{1F3A5} ", []], ["good", [0]], [" ", []], ["film", [1]]]);
  assert.deepEqual(pieces("abc", 0, [unit(0, 2, 1), unit(1, 3, 1), unit(0, 2, 1)]), [["ab", [0, 2]], ["c", []]]);
  assert.deepEqual(pieces("abc", 1, [unit(0, 2, 1), unit(1, 9, 1, 1)]), [["abc", []]]);
});

test("scores that no unit has are left out, and so is what was not measured", () => {
  const found = storedExplanation(TEXT, "m")!;
  assert.deepEqual(Object.keys(found.columns[0]!.scores), ["value", "removal"]);
  assert.equal(found.function, null);
  assert.equal(found.highlight, "removal");
  const { fidelity, trust, effect } = found.columns[0]!;
  assert.equal(fidelity!.few.r2, 0.9);
  assert.equal(fidelity!.any.r2, null);
  assert.equal(fidelity!.linear, null);
  assert.equal(fidelity!.one_score!.any.r2, 0.6);
  assert.match(trust, /90% with 1 to 10 units removed, – with any number removed/);
  assert.deepEqual(effect, [true, true]);
  assert.equal(storedExplanation({ ...TEXT, units: [], prediction: null }, "m"), null);
});

test("Shapley values rank and colour where they are stored, and units without effect stay without", () => {
  const found = storedExplanation({ ...TEXT, units: TEXT.units.map((unit, at) => ({ ...unit, shapley: at, shapley_se: 0.25, effect: at > 0 })) }, "m")!;
  assert.equal(found.highlight, "shapley");
  assert.deepEqual(found.columns[0]!.errors.shapley, [0.25, 0.25]);
  assert.deepEqual(found.columns[0]!.effect, [false, true]);
});
