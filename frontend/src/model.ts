/** What one explanation's view currently shows. Parts of the view read it and listen for changes. */
import { columnOf, SCORES, signOf, type Column, type Explanation, type Score } from "./data";
import { lengthEffect, predict, probability } from "./formula";

export type Change = "score" | "target" | "errors" | "chart" | "counts" | "active";
export type Chart = "scatter" | "bars";
export const MOST_REPEATS = 9;

export const TITLES: Readonly<Record<Score, string>> = {
  value: "value", importance: "importance", alone: "alone", linearized: "linearized", slope: "slope", removal: "removal", shapley: "Shapley",
};
export const MEANINGS: Readonly<Record<Score, string>> = {
  value: "where this unit pulls the output",
  importance: "how hard it pulls, on a log scale",
  alone: "what would be predicted from this unit only",
  linearized: "value times weight: both in one number, for ranking",
  slope: "what a little more of it does",
  removal: "what is lost when it goes",
  shapley: "its fair part of the prediction",
};

export interface Prediction {
  readonly output: number;
  readonly probability: number | null;
}

export class Model {
  readonly counts: number[];
  readonly additive: boolean;
  readonly scoreNames: readonly Score[];
  target: number;
  score: Score;
  chart: Chart;
  errors = false;
  active: number | null = null;
  private readonly listeners: ((change: Change) => void)[] = [];
  private readonly cache = new Map<string, readonly (number | null)[]>();

  constructor(readonly explanation: Explanation) {
    this.counts = explanation.units.map(() => 1);
    this.target = explanation.target;
    this.additive = explanation.function.kind === "linear";
    this.scoreNames = SCORES.filter((name) => this.data.scores[name] !== undefined);
    this.score = this.scoreNames.includes("removal") ? "removal" : this.scoreNames[0]!;
    this.chart = this.additive ? "bars" : "scatter";
  }

  get column(): number {
    return columnOf(this.explanation, this.target);
  }
  get sign(): number {
    return signOf(this.explanation, this.target);
  }
  get data(): Column {
    return this.explanation.columns[this.column]!;
  }
  get label(): string {
    return this.explanation.labels[this.target] ?? "";
  }
  get edited(): boolean {
    return this.counts.some((count) => count !== 1);
  }
  /** What the output is measured in. */
  get unit(): string {
    const { kind } = this.explanation;
    return kind === "regression" ? "output" : kind === "multiclass" ? "centred log probability" : "log odds";
  }
  /** One piece, in words: "token", "word", … */
  get piece(): string {
    return this.explanation.granularity === "type" ? "token" : this.explanation.granularity;
  }
  title(name: Score): string {
    return this.additive && name === "value" ? "score" : TITLES[name];
  }
  meaning(name: Score): string {
    return this.additive && name === "value" ? "what is lost when it goes, in an additive explanation" : MEANINGS[name];
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }
  change(change: Change): void {
    if (change === "target") this.cache.clear();
    for (const listener of this.listeners) listener(change);
  }

  scores(name: Score = this.score): readonly (number | null)[] {
    const known = this.cache.get(name);
    if (known) return known;
    const sign = name === "importance" ? 1 : this.sign;
    const found = (this.data.scores[name] ?? []).map((score) => (score === null ? null : sign * score));
    this.cache.set(name, found);
    return found;
  }
  error(name: Score, unit: number): number | null {
    return this.data.errors[name]?.[unit] ?? null;
  }
  sink(): [number, number] | null {
    return this.data.sink && [this.data.sink[0] * this.sign, this.data.sink[1]];
  }

  /** The model's own answer for the whole text. */
  own(): Prediction {
    return this.prediction(this.explanation.full);
  }
  /** The class that the model chooses, with its probability; null where it chooses none of several. */
  predictedLabel(): { label: string; probability: number } | null {
    const { kind, full, labels } = this.explanation;
    if (kind !== "binary" && kind !== "multiclass") return null;
    const shares = kind === "binary" ? [-1, 1].map((sign) => probability(kind, full, 0, sign)!) : full.map((_, column) => probability(kind, full, column, 1)!);
    const place = shares.reduce((best, share, other) => (share > shares[best]! ? other : best), 0);
    return { label: labels[place] ?? "", probability: shares[place]! };
  }
  /** What the explanation predicts, for the edited text by default. */
  predicted(counts: ArrayLike<number> = this.counts): Prediction | null {
    const columns = predict(this.explanation.function, counts);
    return columns && this.prediction(columns);
  }
  /** What of the edit's change is due to the number of units kept, whichever they are; 0 where that changes nothing. */
  lengthPart(): number {
    const [now, whole] = [this.counts, this.counts.map(() => 1)].map((counts) => lengthEffect(this.explanation.function, counts)?.[this.column] ?? 0);
    return this.sign * (now! - whole!);
  }
  private prediction(columns: readonly number[]): Prediction {
    return {
      output: this.sign * columns[this.column]!,
      probability: probability(this.explanation.kind, columns, this.column, this.sign),
    };
  }

  activate(unit: number | null): void {
    if (unit === this.active) return;
    this.active = unit;
    this.change("active");
  }
  setCount(units: readonly number[], count: number): void {
    const kept = Math.max(0, Math.min(MOST_REPEATS, count));
    for (const unit of units) this.counts[unit] = kept;
    this.change("counts");
  }
  reset(): void {
    this.counts.fill(1);
    this.change("counts");
  }
}
