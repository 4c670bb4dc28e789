/** What one explanation's view currently shows. Parts of the view read it and listen for changes. */
import { columnOf, SCORES, signOf, type Column, type Explanation, type Score, type Source } from "./data";
import { predict, probability, squeezed, type Surrogate } from "./formula";

export type Change = "score" | "target" | "errors" | "chart" | "counts" | "active" | "more";
export type Chart = "scatter" | "bars";
/** What a click on a word does. */
export type ClickMode = "remove" | "repeat" | "select";
export const MOST_REPEATS = 9;

export const TITLES: Readonly<Record<Score, string>> = {
  value: "value", importance: "importance", removal: "removal", alone: "alone", slope: "slope", shapley: "Shapley value", linearized: "linearized",
  filled: "filled",
};
/** The scores that are always shown; the others are one click away. */
const IN_FRONT: readonly Score[] = ["value", "importance", "shapley"];
export const MEANINGS: Readonly<Record<Score, string>> = {
  value: "the model output that it argues for",
  importance: "how strongly it is heard against the others, on a log scale",
  removal: "what is lost when it is removed",
  alone: "the model output for it alone",
  slope: "what one more copy of it adds",
  shapley: "its fair share of the prediction",
  linearized: "value times exp(importance), in one number",
  filled: "the model output when it fills the text",
};

/** How a removed unit is kept from the model. */
const REMOVALS: Readonly<Record<string, string>> = {
  hide: "hidden from the attention", delete: "deleted", mask: "replaced by the mask token", unk: "replaced by the unknown token",
};
export const removalOf = (name: string): string => REMOVALS[name] ?? `removed by "${name}"`;

/** What the one score of a method without importances is. */
const SCORE_MEANINGS: Readonly<Record<Surrogate["kind"], string>> = {
  bounded: MEANINGS.value,
  slalom: MEANINGS.value,
  linear: "what is lost when it is removed, in an additive explanation",
  pairs: "its own part of what is lost when it is removed, and half of what each of its pairs adds to that",
  process: "what is predicted to be lost when it is removed",
};

export interface Prediction {
  readonly output: number;
  readonly probability: number | null;
}

/** Two units that are heard together: one more element of the formula. */
export interface Together {
  readonly texts: readonly string[];
  readonly value: number;
  readonly importance: number;
}

export class Model {
  readonly counts: number[];
  readonly additive: boolean;
  readonly scoreNames: readonly Score[];
  target: number;
  score: Score;
  chart: Chart;
  errors = false;
  /** Whether all scores are shown. */
  more = false;
  active: number | null = null;
  mode: ClickMode = "remove";
  private readonly listeners: ((change: Change) => void)[] = [];
  private readonly cache = new Map<string, readonly (number | null)[]>();

  constructor(readonly explanation: Explanation) {
    this.counts = explanation.units.map(() => 1);
    this.target = explanation.target;
    this.additive = explanation.function === null ? this.data.scores.importance === undefined : !["bounded", "slalom"].includes(explanation.function.kind);
    this.scoreNames = SCORES.filter((name) => this.data.scores[name] !== undefined);
    this.score = this.firstScore;
    this.chart = this.additive ? "bars" : "scatter";
  }

  /** Goes on where the view of an earlier explanation of the same text was. */
  adopt(earlier: Model): void {
    const { explanation: before } = earlier;
    const same = before.units.length === this.counts.length && before.units.every((unit, place) => unit === this.explanation.units[place]);
    if (!same || earlier.additive !== this.additive) return;
    earlier.counts.forEach((count, unit) => (this.counts[unit] = count));
    if (this.explanation.columns[columnOf(this.explanation, earlier.target)]) this.target = earlier.target;
    if (this.scoreNames.includes(earlier.score)) this.score = earlier.score;
    this.chart = earlier.chart;
    this.errors = earlier.errors;
    this.more = earlier.more;
    this.mode = earlier.mode;
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
  /** Whether the text cannot be edited, because nothing predicts edits. */
  get fixed(): boolean {
    return this.explanation.function === null;
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
  /** Whether what is removed leaves the sink in its place. */
  get bounded(): boolean {
    return this.explanation.function?.kind === "bounded";
  }
  /** The scores on show. */
  get shownNames(): readonly Score[] {
    return this.more ? this.scoreNames : this.scoreNames.filter((name) => IN_FRONT.includes(name) || name === this.firstScore);
  }
  /** Whether there are scores that are not in front. */
  get hasMore(): boolean {
    return this.scoreNames.some((name) => !IN_FRONT.includes(name) && name !== this.firstScore);
  }
  /** Where a score comes from; null for additive methods, whose scores are what each method makes of the model. */
  source(name: Score): Source | null {
    return this.additive ? null : (this.data.sources[name] ?? null);
  }
  title(name: Score): string {
    return this.additive && name === "value" ? "score" : TITLES[name];
  }
  meaning(name: Score): string {
    return this.additive && name === "value" ? SCORE_MEANINGS[this.explanation.function?.kind ?? "linear"] : MEANINGS[name];
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }
  change(change: Change): void {
    if (change === "target") this.cache.clear();
    for (const listener of this.listeners) listener(change);
  }

  /** Whether a unit has an effect that stands out of the noise. */
  effect(unit: number): boolean {
    return this.data.effect[unit]!;
  }
  /** How many units have none. */
  get without(): number {
    return this.data.effect.filter((effect) => !effect).length;
  }
  /** The scores to read; null for a unit without effect. */
  scores(name: Score = this.score): readonly (number | null)[] {
    const known = this.cache.get(name);
    if (known) return known;
    const found = this.fitted(name).map((score, unit) => (this.effect(unit) ? score : null));
    this.cache.set(name, found);
    return found;
  }
  /** The scores of all units, with or without effect: where their points are, not what to read. */
  fitted(name: Score): readonly (number | null)[] {
    const sign = name === "importance" ? 1 : this.sign;
    return (this.data.scores[name] ?? []).map((score) => (score === null ? null : sign * score));
  }
  /** The standard error; null where it is not known, for a unit without effect, and for an exact output of the model. */
  error(name: Score, unit: number): number | null {
    if (!this.effect(unit)) return null;
    const error = this.data.errors[name]?.[unit] ?? null;
    return error === 0 && (this.fixed || this.source(name) === "measured") ? null : error;
  }
  /** Whether any number on show has a standard error. */
  get hasErrors(): boolean {
    return this.scoreNames.some((name) => this.explanation.units.some((_, unit) => this.error(name, unit) !== null));
  }
  /** Shows all scores, or only those in front. */
  showMore(more: boolean): void {
    this.more = more;
    if (!this.shownNames.includes(this.score)) {
      this.score = this.firstScore;
      this.change("score");
    }
    this.change("more");
  }
  /** The score that colours show at first. */
  get firstScore(): Score {
    const { highlight } = this.explanation;
    return this.scoreNames.includes(highlight) ? highlight : this.scoreNames[0]!;
  }
  sink(): [number, number] | null {
    return this.data.sink && [this.data.sink[0] * this.sign, this.data.sink[1]];
  }

  /** The units that are heard together, the most important ones first. */
  together(): Together[] {
    const { function: surrogate, units } = this.explanation;
    if (surrogate?.kind !== "bounded") return [];
    const found = surrogate.pairs.map((pair, place) => ({
      texts: pair.map((unit) => units[unit]!),
      value: this.sign * squeezed(surrogate, surrogate.pair_values[place]!)[this.column]!,
      importance: surrogate.pair_importances[place]!,
    }));
    return found.sort((a, b) => b.importance - a.importance);
  }

  /** The lowest and the highest output; null where the model has no bound. */
  range(): [number, number] | null {
    if (!this.data.range) return null;
    const [low, high] = this.data.range;
    return this.sign < 0 ? [-high, -low] : [low, high];
  }

  /** The model's own output for the whole text. */
  own(): Prediction {
    return this.read(this.explanation.full);
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
    const { function: surrogate } = this.explanation;
    const columns = surrogate && predict(surrogate, counts);
    return columns && this.read(columns);
  }
  /** Outputs per column, as the target sees them. */
  read(columns: readonly number[]): Prediction {
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
    if (this.fixed) return;
    const kept = Math.max(0, Math.min(MOST_REPEATS, count));
    for (const unit of units) this.counts[unit] = kept;
    this.change("counts");
  }
  reset(): void {
    this.counts.fill(1);
    this.change("counts");
  }
}
