/**
 * The formula, in its one JavaScript copy. It gives what `Explanation.predict` gives:
 *
 *   F_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ] + o_c(sum_j n_j),   w = exp(s)
 *
 * for a SLALOM, where o is what the number of units kept adds by itself (often nothing), and for an additive method the whole text's output less the scores of what is left out.
 */
export interface Slalom {
  readonly kind: "slalom";
  readonly values: readonly (readonly (readonly number[])[])[]; // heads, units, columns
  readonly importances: readonly (readonly number[])[]; // heads, units
  readonly sink_values: readonly (readonly number[])[] | null; // heads, columns
  readonly sink_importances: readonly number[] | null; // heads
  readonly length_offsets?: readonly (readonly number[])[] | null; // none to all units kept, columns
}

export interface Additive {
  readonly kind: "linear";
  readonly unit_scores: readonly (readonly number[])[]; // units, columns
  readonly full: readonly number[]; // columns
}

export type Surrogate = Slalom | Additive;

/** Predictions per column for counts per unit; null where nothing is kept and no sink says what that gives. */
export function predict(surrogate: Surrogate, counts: ArrayLike<number>): number[] | null {
  return surrogate.kind === "slalom" ? slalom(surrogate, counts) : additive(surrogate, counts);
}

function slalom(surrogate: Slalom, counts: ArrayLike<number>): number[] | null {
  const { values, importances, sink_values: sinkValues, sink_importances: sinkImportances } = surrogate;
  const columns = values[0]![0]!.length;
  const totals = new Array<number>(columns).fill(0);
  for (let head = 0; head < values.length; head++) {
    const own = importances[head]!;
    // Shifting all importances changes nothing; the largest that is kept keeps exp in range.
    let largest = sinkImportances === null ? -Infinity : sinkImportances[head]!;
    for (let unit = 0; unit < own.length; unit++) if (counts[unit]! > 0) largest = Math.max(largest, own[unit]!);
    if (largest === -Infinity) return null;
    let weightSum = 0;
    const sums = new Array<number>(columns).fill(0);
    const add = (weight: number, value: readonly number[]) => {
      weightSum += weight;
      for (let column = 0; column < columns; column++) sums[column]! += weight * value[column]!;
    };
    for (let unit = 0; unit < own.length; unit++) {
      if (counts[unit]! > 0) add(counts[unit]! * Math.exp(own[unit]! - largest), values[head]![unit]!);
    }
    if (sinkValues !== null && sinkImportances !== null) add(Math.exp(sinkImportances[head]! - largest), sinkValues[head]!);
    for (let column = 0; column < columns; column++) totals[column]! += sums[column]! / weightSum;
  }
  const effect = lengthEffect(surrogate, counts);
  return effect === null ? totals : totals.map((total, column) => total + effect[column]!);
}

/** What the number of units kept adds per column, whichever they are; null where it adds nothing to any text. */
export function lengthEffect(surrogate: Surrogate, counts: ArrayLike<number>): number[] | null {
  if (surrogate.kind !== "slalom" || !surrogate.length_offsets) return null;
  const offsets = surrogate.length_offsets;
  const last = offsets.length - 1;
  let kept = 0;
  for (let unit = 0; unit < counts.length; unit++) kept += counts[unit]!;
  kept = Math.min(kept, last); // a text with repeats counts as the whole text
  const below = Math.floor(kept);
  const part = kept - below;
  const above = offsets[Math.min(below + 1, last)]!;
  return offsets[below]!.map((offset, column) => (1 - part) * offset + part * above[column]!);
}

function additive(surrogate: Additive, counts: ArrayLike<number>): number[] {
  return surrogate.full.map((full, column) => {
    let removed = 0;
    surrogate.unit_scores.forEach((scores, unit) => (removed += (1 - counts[unit]!) * scores[column]!));
    return full - removed;
  });
}

/** The probability of a label, from all columns; null where the outputs are no log odds. */
export function probability(kind: string, columns: readonly number[], column: number, sign: number): number | null {
  if (kind === "regression") return null;
  if (kind !== "multiclass") return 1 / (1 + Math.exp(-sign * columns[column]!));
  const largest = Math.max(...columns);
  const sum = columns.reduce((total, entry) => total + Math.exp(entry - largest), 0);
  return Math.exp(columns[column]! - largest) / sum;
}
