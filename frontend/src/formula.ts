/**
 * The formula, in its one JavaScript copy. It gives what `Explanation.predict` gives. For a SLALOM that is
 *
 *   H_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ] + o_c(sum_j n_j),   w = exp(s)
 *
 * where o is what the number of units kept adds by itself (often nothing). Where there are two scores G, that holds for rows without
 * repeats. A row x with repeats is predicted from the row x' that has each unit at most once:
 *
 *   F(x) = G(x) + r [ H(x') - G(x') + sum_j c_j d_j ],   c_j = 2 (1 - 1/n_j) where n_j > 1,   r = (units in x' - 1) / (units in x - 1)
 *
 * For an additive method it is the whole text's output less the scores of what is left out; "pairs" also takes away what pairs of units lose
 * together. A "process" adds up how like each row that was asked is, times that row's weight.
 */
export interface TwoScores {
  readonly kind: "two scores";
  readonly values: readonly (readonly number[])[]; // units, columns
  readonly importances: readonly number[]; // units
  readonly sink_value: readonly number[]; // columns
  readonly sink_importance: number;
}

/** Pairs of units whose joint effect two scores miss. They add nothing to predictions. */
export interface Interactions {
  readonly kind: "interactions";
  readonly pairs: readonly (readonly number[])[]; // two units each
  readonly strengths: readonly (readonly number[])[]; // pairs, columns: what the model itself says
  readonly errors: readonly (readonly number[])[]; // pairs, columns
  readonly shares: readonly number[]; // columns
}

export interface Slalom {
  readonly kind: "slalom";
  readonly values: readonly (readonly (readonly number[])[])[]; // heads, units, columns
  readonly importances: readonly (readonly number[])[]; // heads, units
  readonly sink_values: readonly (readonly number[])[] | null; // heads, columns
  readonly sink_importances: readonly number[] | null; // heads
  readonly length_offsets?: readonly (readonly number[])[] | null; // none to all units kept, columns
  readonly two_scores?: TwoScores | null;
  readonly repeats?: readonly (readonly number[])[] | null; // units, columns: what the two scores miss of one more copy
  readonly correction?: Correction | null; // a process with a share of the heads
  readonly interactions?: Interactions | null;
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
  readonly place_level: number;
  readonly growth: number;
}

export interface Correction {
  readonly kind: "correction";
  readonly share: number; // of the heads
  readonly process: Process;
  readonly shapley: readonly (readonly number[])[]; // units, columns: of the process
}

export type Surrogate = Slalom | Additive | Pairs | Process;
/** Units in one number of a packed row. */
export const BITS = 48;
type Counts = ArrayLike<number>;

/** Predictions per column for counts per unit; null where nothing is kept and no sink says what that gives. */
export function predict(surrogate: Surrogate, counts: Counts): number[] | null {
  switch (surrogate.kind) {
    case "slalom": return slalom(surrogate, counts);
    case "linear": return additive(surrogate, counts);
    case "pairs": return withPairs(surrogate, counts);
    case "process": return process(surrogate, counts);
  }
}

function slalom(surrogate: Slalom, counts: Counts): number[] | null {
  const { two_scores: two, repeats } = surrogate;
  if (!two) return corrected(surrogate, counts);
  const share = say(counts);
  const once = Array.from(counts, (count) => Math.min(count, 1));
  const deletions = corrected(surrogate, once);
  if (deletions === null || share === 1) return deletions;
  const [whole, without] = [twoScores(two, counts), twoScores(two, once)];
  return deletions.map((deletion, column) => {
    let correction = deletion - without[column]!;
    repeats?.forEach((missed, unit) => (correction += 2 * (1 - 1 / Math.max(counts[unit]!, 1)) * missed[column]!));
    return whole[column]! + share * correction;
  });
}

/** What the heads predict, or a process with a share of them that grows with what is missing. */
function corrected(surrogate: Slalom, counts: Counts): number[] | null {
  const predicted = heads(surrogate, counts);
  if (predicted === null || !surrogate.correction) return predicted;
  const { share, process: rest } = surrogate.correction;
  let missing = 0;
  for (let unit = 0; unit < counts.length; unit++) missing += (1 - Math.min(counts[unit]!, 1)) / counts.length;
  return process(rest, counts).map((learnt, column) => learnt + share * missing * (predicted[column]! - rest.full[column]!));
}

/** How much say corrections have in a row: 1 without repeats, 0 where all but the first unit are copies. */
function say(counts: Counts): number {
  let [kept, distinct] = [0, 0];
  for (let unit = 0; unit < counts.length; unit++) {
    kept += counts[unit]!;
    distinct += Math.min(counts[unit]!, 1);
  }
  return kept > distinct ? (distinct - 1) / (kept - 1) : 1;
}

/** The average of measured values, with a sink for what is missing: its count is the share of units that are. */
function twoScores(two: TwoScores, counts: Counts): number[] {
  let kept = 0;
  for (let unit = 0; unit < counts.length; unit++) kept += counts[unit]!;
  const missing = Math.max(0, 1 - kept / counts.length);
  return average([...Array.from(counts), missing], [...two.importances, two.sink_importance], [...two.values, two.sink_value])!;
}

/** What the heads predict, with what the number of units kept adds; null for an empty row without a sink. */
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
  const effect = offset(surrogate, counts);
  return effect === null ? totals : totals.map((total, column) => total + effect[column]!);
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

/** What the number of units kept adds to a prediction per column, whichever they are; null where it adds nothing to any text. */
export function lengthEffect(surrogate: Surrogate, counts: Counts): number[] | null {
  if (surrogate.kind !== "slalom") return null;
  if (!surrogate.two_scores) return offset(surrogate, counts);
  const share = say(counts);
  return offset(surrogate, Array.from(counts, (count) => Math.min(count, 1)))?.map((effect) => share * effect) ?? null;
}

/** The offset of a row's length per column; null where there are no offsets. */
function offset(surrogate: Slalom, counts: Counts): number[] | null {
  if (!surrogate.length_offsets) return null;
  const offsets = surrogate.length_offsets;
  const last = offsets.length - 1;
  let kept = 0;
  for (let unit = 0; unit < counts.length; unit++) kept += counts[unit]!;
  kept = Math.min(kept, last); // a text with repeats counts as the whole text
  const below = Math.floor(kept);
  const part = kept - below;
  const above = offsets[Math.min(below + 1, last)]!;
  return offsets[below]!.map((lower, column) => (1 - part) * lower + part * above[column]!);
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

const KNOTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 25, 32, 45, 70, 110, 180];
const MOST_PLACES = 2400;

/** How far units may have moved up, as `places.py` says. */
function knots(units: number): readonly number[] {
  const reached = KNOTS.slice(1).filter((knot) => knot < units).length;
  return KNOTS.slice(0, 1 + Math.max(1, Math.min(reached, Math.floor(MOST_PLACES / units))));
}

/** Between which knots something lies: the number of the lower one, and the share of the upper one. */
type Place = readonly [lower: number, share: number];

function place(moved: number, at: readonly number[]): Place {
  const above = at.findIndex((knot) => knot > moved);
  if (above < 0) return [at.length - 1, 0];
  return [above - 1, (moved - at[above - 1]!) / (at[above]! - at[above - 1]!)];
}

/** How far each unit has moved up. */
function places(present: readonly number[], at: readonly number[]): Place[] {
  let missing = 0;
  return present.map((count) => {
    const here = place(missing, at);
    missing += 1 - count;
    return here;
  });
}

/** How alike two places are. Knot 0 stands for what has not moved, and does not count. */
function overlap([lower, share]: Place, [other, part]: Place): number {
  const counted = (knot: number): number => (knot > 0 ? 1 : 0);
  if (lower === other) return counted(lower) * (1 - share) * (1 - part) + share * part;
  if (other === lower + 1) return share * (1 - part);
  return lower === other + 1 ? (1 - share) * part : 0;
}

/** A Gaussian process: a sum over the rows that were asked. A unit counts once, however often it is there. */
function process(surrogate: Process, counts: Counts): number[] {
  const { packed, weights, full, reaches, slopes } = surrogate;
  const present = Array.from(counts, (count) => Math.min(count, 1));
  const total = present.reduce((sum, count) => sum + count, 0);
  const length = Math.log(total + 1);
  const grown = (kept: number): number => ((present.length - kept + 1) / (present.length + 1)) ** surrogate.growth;
  const larger = grown(total);
  const at = knots(present.length);
  const moved = places(present, at);
  const found = [...full];
  packed.forEach((words, row) => {
    let [apart, alike, kept, same] = [0, 0, 0, 0];
    for (let unit = 0; unit < present.length; unit++) {
      const bit = Math.floor(words[Math.floor(unit / BITS)]! / 2 ** (unit % BITS)) % 2;
      apart += reaches[unit]! * Math.abs(present[unit]! - bit);
      alike += slopes[unit]! * (1 - present[unit]!) * (1 - bit);
      if (bit === 1) same += present[unit]! * overlap(moved[unit]!, place(unit - kept, at));
      kept += bit;
    }
    const lengths = Math.abs(length - Math.log(kept + 1));
    const unlike = surrogate.level * Math.exp(-apart) + surrogate.length_level * Math.exp(-surrogate.length_reach * lengths);
    const kernel = unlike * larger * grown(kept) + alike + surrogate.place_level * same;
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
