/** A text of a corpus as it is stored, made into what the view shows. Its scores are there, what predicts edits is not. */
import type { Column, Explanation, Score } from "../data";
import { wholePercent } from "../numbers";

export interface StoredUnit {
  readonly start: number;
  readonly end: number;
  readonly part: number;
  readonly unit: string;
  readonly value: number | null;
  readonly importance: number | null;
  readonly removal: number | null;
  readonly value_se: number | null;
  readonly importance_se: number | null;
  readonly removal_se: number | null;
  readonly shapley?: number | null;
  readonly shapley_se?: number | null;
  readonly effect?: boolean | null;
}

export interface StoredText {
  readonly number: number;
  readonly id: string | null;
  readonly status: string;
  readonly problem: string | null;
  readonly text: string | null;
  readonly text_pair: string | null;
  readonly target: string | null;
  readonly predicted: string | null;
  readonly prediction: number | null;
  readonly sink: { readonly value: number; readonly importance: number } | null;
  readonly units: readonly StoredUnit[];
  readonly fidelity: Readonly<Record<string, number | null>> | null;
  readonly calls: number;
  readonly seed: number;
  readonly notes: readonly string[];
}

const KEPT = ["value", "importance", "removal", "shapley"] as const;

/** What the view shows; null where there is nothing, because the text could not be explained. */
export function storedExplanation(stored: StoredText, model: string): Explanation | null {
  const { units, prediction, target } = stored;
  if (units.length === 0 || prediction === null) return null;
  return {
    model, method: "", granularity: "unit", removal: "delete", kind: "regression", labels: [target ?? ""], target: 0, full: [prediction],
    highlight: known(units).includes("shapley") ? "shapley" : "removal", function: null, units: units.map(({ unit }) => unit), spans: units.map(({ part, start, end }) => [part, start, end]),
    occurrences: [], parts: [stored.text, stored.text_pair].flatMap((text, part) => (text === null ? [] : [pieces(text, part, units)])),
    left_out: 0, columns: [column(stored)], calls: 0, calls_check: 0, notes: stored.notes,
  };
}

/** The scores that any unit has. */
const known = (units: readonly StoredUnit[]) => KEPT.filter((name) => units.some((unit) => unit[name] != null));

function column({ units, sink, fidelity }: StoredText): Column {
  const by = (end: "" | "_se"): Partial<Record<Score, (number | null)[]>> =>
    Object.fromEntries(known(units).map((name) => [name, units.map((unit) => unit[`${name}${end}`] ?? null)]));
  const agreement = (name: string) => ({ r2: fidelity?.[`${name}_r2`] ?? null, mse: fidelity?.[`${name}_mse`] ?? 0, rows: 0 });
  const baseline = (name: string) =>
    fidelity?.[`${name}_few_r2`] == null && fidelity?.[`${name}_any_r2`] == null ? null : { few: agreement(`${name}_few`), any: agreement(`${name}_any`) };
  return {
    scores: by(""), errors: by("_se"), sources: {}, sink: sink && [sink.value, sink.importance], effect: units.map(({ effect }) => effect ?? true), range: null,
    fidelity: fidelity && { few: agreement("few"), any: agreement("any"), linear: baseline("linear"), one_score: baseline("one_score") },
    trust: fidelity ? `Held-out R² when it was explained: ${wholePercent(fidelity["few_r2"])} with 1 to 10 units removed, ${wholePercent(fidelity["any_r2"])} with any number removed.`
      : "It was not tested on texts with units removed.",
  };
}

/** A text cut where its units begin and end. */
export function pieces(text: string, part: number, units: readonly StoredUnit[]): [string, number[]][] {
  const characters = Array.from(text); // places count characters, and some of them are two in this language
  const spans = new Map<number, { end: number; at: number[] }>();
  units.forEach((unit, at) => {
    if (unit.part !== part || unit.start >= unit.end || unit.end > characters.length) return;
    const known = spans.get(unit.start);
    if (known?.end === unit.end) known.at.push(at);
    else if (!known) spans.set(unit.start, { end: unit.end, at: [at] });
  });
  const found: [string, number[]][] = [];
  const cut = (start: number, end: number, at: number[]) => {
    if (start < end) found.push([characters.slice(start, end).join(""), at]);
  };
  let position = 0;
  for (const [start, { end, at }] of [...spans].sort(([one], [other]) => one - other)) {
    if (start < position) continue; // overlaps its neighbour: it is in the picture and in the table
    cut(position, start, []);
    cut(start, end, at);
    position = end;
  }
  cut(position, characters.length, []);
  return found;
}
