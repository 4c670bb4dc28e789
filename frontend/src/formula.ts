/**
 * The formula, in its one JavaScript copy. It gives what `Explanation.predict` gives. For the bounded form that is
 *
 *   V_c(x) = [ sum_j n_j w_j v_jc + m w_0 v_0c ] / [ sum_j n_j w_j + m w_0 ],   w = exp(s),   m = sum of max(0, 1 - n_j) over the units
 *   F_c(x) = c + tanh(k (V_c - c)) / k,   and V_c where the curvature k is 0
 *
 * where n_j says how often unit j is kept and the sink (v_0, s_0) stands for each unit that is removed. A pair of units that are heard together
 * is one more j, with n_j the product of theirs. For a SLALOM as in the paper it is
 *
 *   H_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ]
 *
 * where the sink, if there is one, is always there. For an additive method it is the whole text's output less the scores of what is removed;
 * "pairs" also takes away what pairs of units lose together. A "process" adds up how like each perturbed input of its fit is, times its weight.
 */
export interface Bounded {
  readonly kind: "bounded";
  readonly inner_values: readonly (readonly number[])[]; // units, columns: before the bound, on the scale of the outputs
  readonly importances: readonly number[]; // units
  readonly inner_sink: readonly number[]; // columns: before the bound
  readonly sink_importance: number;
  readonly centre: readonly number[]; // columns: the middle of the model's range
  readonly curvature: readonly number[]; // columns: one over half of the range's width; 0: no bound
  readonly shapley: readonly (readonly number[])[]; // units, columns: shown, no part of predictions
  readonly pairs: readonly (readonly number[])[]; // two units each that are heard together
  readonly pair_values: readonly (readonly number[])[]; // pairs, columns: before the bound
  readonly pair_importances: readonly number[]; // pairs
}

export interface Slalom {
  readonly kind: "slalom";
  readonly values: readonly (readonly (readonly number[])[])[]; // heads, units, columns
  readonly importances: readonly (readonly number[])[]; // heads, units
  readonly sink_values: readonly (readonly number[])[] | null; // heads, columns
  readonly sink_importances: readonly number[] | null; // heads
}

export interface Additive {
  readonly kind: "linear";
  readonly unit_scores: readonly (readonly number[])[]; // units, columns
  readonly full: readonly number[]; // columns
}

export interface Pairs {
  readonly kind: "pairs";
  readonly mains: readonly (readonly number[])[]; // units, columns
  readonly pairs: readonly (readonly number[])[]; // two units each
  readonly joints: readonly (readonly number[])[]; // pairs, columns
  readonly full: readonly number[]; // columns
}

export interface Process {
  readonly kind: "process";
  readonly packed: readonly (readonly number[])[]; // rows, numbers of BITS bits: which units each row keeps
  readonly weights: readonly (readonly number[])[]; // rows, columns
  readonly full: readonly number[]; // columns
  readonly reaches: readonly number[]; // units
  readonly slopes: readonly number[]; // units
  readonly level: number;
  readonly length_level: number;
  readonly length_reach: number;
}

export type Surrogate = Bounded | Slalom | Additive | Pairs | Process;
/** Units in one number of a packed row. */
export const BITS = 48;
type Counts = ArrayLike<number>;

/** Predictions per column for counts per unit; null where nothing is kept and no sink says what that gives. */
export function predict(surrogate: Surrogate, counts: Counts): number[] | null {
  switch (surrogate.kind) {
    case "bounded": return bounded(surrogate, counts);
    case "slalom": return heads(surrogate, counts);
    case "linear": return additive(surrogate, counts);
    case "pairs": return withPairs(surrogate, counts);
    case "process": return process(surrogate, counts);
  }
}

/** The average of all units and pairs, the sink in the place of each unit that is removed, squeezed into the model's range. */
function bounded(surrogate: Bounded, counts: Counts): number[] {
  const { inner_values: values, importances, inner_sink: sink, sink_importance: sinkImportance, pairs, pair_values: pairValues, pair_importances: pairImportances } = surrogate;
  const kept = Array.from(counts);
  const together = pairs.map(([first, second]) => kept[first!]! * kept[second!]!);
  const removed = kept.reduce((sum, count) => sum + Math.max(0, 1 - count), 0);
  const inner = average([...kept, ...together, removed], [...importances, ...pairImportances, sinkImportance], [...values, ...pairValues, sink]);
  return squeezed(surrogate, inner!); // something is kept, or something is removed
}

/** Averages or values per column, squeezed into the model's range. */
export const squeezed = ({ centre, curvature }: Bounded, inner: readonly number[]): number[] => inner.map((value, column) => {
  const [middle, bend] = [centre[column]!, curvature[column]!];
  return bend === 0 ? value : middle + Math.tanh(bend * (value - middle)) / bend;
});

/** The sum of the heads; null for an empty row without a sink. */
function heads(surrogate: Slalom, counts: Counts): number[] | null {
  const { values, importances, sink_values: sinkValues, sink_importances: sinkImportances } = surrogate;
  const totals = new Array<number>(values[0]![0]!.length).fill(0);
  for (let head = 0; head < values.length; head++) {
    const found = sinkValues === null || sinkImportances === null
      ? average(counts, importances[head]!, values[head]!)
      : average([...Array.from(counts), 1], [...importances[head]!, sinkImportances[head]!], [...values[head]!, sinkValues[head]!]);
    if (found === null) return null;
    for (let column = 0; column < totals.length; column++) totals[column]! += found[column]!;
  }
  return totals;
}

/** The average of values (slots, columns) under counts times exp(importance); null where every count is 0. */
function average(counts: Counts, importances: readonly number[], values: readonly (readonly number[])[]): number[] | null {
  // Shifting all importances changes nothing; the largest that is kept keeps exp in range.
  let largest = -Infinity;
  for (let slot = 0; slot < importances.length; slot++) if (counts[slot]! > 0) largest = Math.max(largest, importances[slot]!);
  if (largest === -Infinity) return null;
  let weightSum = 0;
  const sums = new Array<number>(values[0]!.length).fill(0);
  for (let slot = 0; slot < importances.length; slot++) {
    if (!(counts[slot]! > 0)) continue;
    const weight = counts[slot]! * Math.exp(importances[slot]! - largest);
    weightSum += weight;
    for (let column = 0; column < sums.length; column++) sums[column]! += weight * values[slot]![column]!;
  }
  return sums.map((sum) => sum / weightSum);
}

function additive(surrogate: Additive, counts: Counts): number[] {
  return surrogate.full.map((full, column) => {
    let removed = 0;
    surrogate.unit_scores.forEach((scores, unit) => (removed += (1 - counts[unit]!) * scores[column]!));
    return full - removed;
  });
}

/** Units as in an additive method, and pairs of which both units are missing. */
function withPairs({ mains, pairs, joints, full }: Pairs, counts: Counts): number[] {
  const found = additive({ kind: "linear", unit_scores: mains, full }, counts);
  pairs.forEach(([first, second], pair) => {
    const together = Math.max(0, 1 - counts[first!]!) * Math.max(0, 1 - counts[second!]!);
    joints[pair]!.forEach((joint, column) => (found[column]! -= together * joint));
  });
  return found;
}

/** A Gaussian process: a sum over the perturbed inputs of its fit. A unit counts once, however often it is there. */
function process(surrogate: Process, counts: Counts): number[] {
  const { packed, weights, full, reaches, slopes } = surrogate;
  const present = Array.from(counts, (count) => Math.min(count, 1));
  const total = present.reduce((sum, count) => sum + count, 0);
  const length = Math.log(total + 1);
  const found = [...full];
  packed.forEach((words, row) => {
    let [apart, alike, kept] = [0, 0, 0];
    for (let unit = 0; unit < present.length; unit++) {
      const bit = Math.floor(words[Math.floor(unit / BITS)]! / 2 ** (unit % BITS)) % 2;
      apart += reaches[unit]! * Math.abs(present[unit]! - bit);
      alike += slopes[unit]! * (1 - present[unit]!) * (1 - bit);
      kept += bit;
    }
    const lengths = Math.abs(length - Math.log(kept + 1));
    const kernel = surrogate.level * Math.exp(-apart) + surrogate.length_level * Math.exp(-surrogate.length_reach * lengths) + alike;
    weights[row]!.forEach((weight, column) => (found[column]! += kernel * weight));
  });
  return found;
}

/** The probability of a label, from all columns; null where the outputs are no log odds. */
export function probability(kind: string, columns: readonly number[], column: number, sign: number): number | null {
  if (kind === "regression") return null;
  if (kind !== "multiclass") return 1 / (1 + Math.exp(-sign * columns[column]!));
  const largest = Math.max(...columns);
  const sum = columns.reduce((total, entry) => total + Math.exp(entry - largest), 0);
  return Math.exp(columns[column]! - largest) / sum;
}
