/** The data inside the page, checked before anything is drawn: a damaged file gets a message, never a blank page. */
import { BITS, type Surrogate } from "./formula";

export const SCORES = ["value", "importance", "removal", "alone", "slope", "shapley", "linearized", "filled"] as const;
export type Score = (typeof SCORES)[number];
const SOURCES = ["measured", "fitted"] as const;
export type Source = (typeof SOURCES)[number];

export interface Agreement {
  readonly r2: number | null;
  readonly mse: number;
  readonly rows: number;
  readonly r2_low?: number | null;
  readonly r2_high?: number | null;
  readonly largest_change?: number | null;
}

/** Agreement with 1 to 10 units removed, and with any number removed. */
export interface FewAndAny {
  readonly few: Agreement;
  readonly any: Agreement;
}

/** Of the explanation, and of two simpler ones on the same calls: an additive one, and one score per unit with the same range. */
export interface Fidelity extends FewAndAny {
  readonly linear: FewAndAny | null;
  readonly one_score: FewAndAny | null;
  /** How many of all calls gave another output than the whole text. */
  readonly changed?: number;
  readonly calls?: number;
}

export interface Column {
  readonly scores: Readonly<Partial<Record<Score, readonly (number | null)[]>>>;
  readonly errors: Readonly<Partial<Record<Score, readonly (number | null)[]>>>;
  readonly sources: Readonly<Partial<Record<Score, Source>>>;
  readonly sink: readonly [number, number] | null;
  readonly fidelity: Fidelity | null;
  readonly trust: string;
  /** Whether each unit has an effect; where it has none, its scores say nothing and are not shown. */
  readonly effect: readonly boolean[];
  /** The lowest and the highest output of the model; null where it has no bound. */
  readonly range: readonly [number, number] | null;
}

export interface Explanation {
  readonly model: string;
  readonly method: string;
  readonly granularity: string;
  readonly removal: string;
  readonly kind: string;
  readonly labels: readonly string[];
  readonly target: number;
  readonly full: readonly number[];
  readonly highlight: Score;
  /** What predicts edited texts; null where only scores were stored, which then are only shown. */
  readonly function: Surrogate | null;
  readonly units: readonly string[];
  readonly spans: readonly (readonly [number, number, number])[];
  readonly occurrences: readonly number[];
  readonly parts: readonly (readonly (readonly [string, readonly number[]])[])[];
  readonly left_out: number;
  readonly columns: readonly (Column | null)[];
  readonly calls: number;
  readonly calls_check: number;
  readonly notes: readonly string[];
  /** What a language model was asked, and what it answered. */
  readonly question?: string | null;
  readonly reply?: string | null;
}

/** An explanation that predicts edited texts, as every one in a report does. */
export interface Predicting extends Explanation {
  readonly function: Surrogate;
}

export interface Entry {
  readonly text: string;
  /** What the model predicts, with its probability; where it chooses no class, what is explained, with the model's output. */
  readonly label: string;
  readonly probability: number | null;
  readonly prediction: number;
  readonly names: readonly string[];
  readonly items: readonly number[];
}

export interface Index {
  readonly title: string;
  readonly count: number;
  readonly texts: readonly Entry[];
}

export const FORMAT = "slalom-view";
export const VERSION = 2;

/** Something in the page's data that cannot be shown; the message is for the reader. */
export class DataError extends Error {}

type Check = (value: unknown, where: string) => void;
type Fields = Readonly<Record<string, unknown>>;

const fail = (where: string, expected: string, value: unknown): never => {
  const given = value === undefined ? "is missing" : `is ${JSON.stringify(value)?.slice(0, 40) ?? typeof value}`;
  throw new DataError(`${where} ${given}, where ${expected} should be`);
};
const text: Check = (value, where) => void (typeof value === "string" || fail(where, "a text", value));
const number: Check = (value, where) => void ((typeof value === "number" && Number.isFinite(value)) || fail(where, "a number", value));
const notNegative: Check = (value, where) => void ((typeof value === "number" && Number.isFinite(value) && value >= 0) || fail(where, "a number of at least 0", value));
const truth: Check = (value, where) => void (typeof value === "boolean" || fail(where, "true or false", value));
const whole: Check = (value, where) => void ((Number.isInteger(value) && (value as number) >= 0) || fail(where, "a whole number", value));
const maybe = (check: Check): Check => (value, where) => value === null || check(value, where);
const list = (check: Check, length?: number): Check => (value, where) => {
  if (!Array.isArray(value)) return fail(where, "a list", value);
  if (length !== undefined && value.length !== length) {
    throw new DataError(`${where} has ${value.length} entries, where ${length} should be`);
  }
  value.forEach((entry, place) => check(entry, `${where}[${place}]`));
};
const object = (value: unknown, where: string): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : fail(where, "an object", value);
const record = (fields: Readonly<Record<string, Check>>, optional: readonly string[] = []): Check => (value, where) => {
  const found = object(value, where);
  for (const name of Object.keys(found)) {
    if (!(name in fields)) throw new DataError(`${where} has the unknown field ${JSON.stringify(name.slice(0, 40))}`);
  }
  for (const [name, check] of Object.entries(fields)) {
    if (name in found || !optional.includes(name)) check(found[name], `${where}.${name}`);
  }
};

const agreement: Check = (value, where) => {
  const found = object(value, where); // more may be measured than is shown here
  maybe(number)(found["r2"], `${where}.r2`);
  for (const name of ["r2_low", "r2_high", "largest_change"]) if (name in found) maybe(number)(found[name], `${where}.${name}`);
};
const fewAndAny: Check = (value, where) => {
  const found = object(value, where);
  for (const part of ["few", "any"]) agreement(found[part], `${where}.${part}`);
};
const fidelity: Check = (value, where) => {
  fewAndAny(value, where);
  const found = object(value, where);
  for (const baseline of ["linear", "one_score"]) maybe(fewAndAny)(found[baseline], `${where}.${baseline}`);
  for (const name of ["changed", "calls"]) if (name in found) whole(found[name], `${where}.${name}`);
};
const oneOf = (known: readonly string[]): Check => (value, where) =>
  void (known.includes(value as string) || fail(where, known.map((name) => `"${name}"`).join(" or "), value));

function surrogate(units: number, columns: number): Check {
  return (value, where) => {
    const { kind, ...rest } = object(value, where);
    if (kind === "bounded") return bounded(units, columns, rest, where);
    if (kind === "linear") return record({ unit_scores: list(list(number, columns), units), full: list(number, columns) })(rest, where);
    if (kind === "pairs") return pairs(units, columns, rest, where);
    if (kind === "process") return process(units, columns, rest, where);
    if (kind !== "slalom") fail(`${where}.kind`, '"bounded", "slalom", "linear", "pairs" or "process"', kind);
    const heads = Array.isArray(rest["values"]) ? rest["values"].length : 0;
    if (heads === 0) fail(`${where}.values`, "a list of heads", rest["values"]);
    record({
      values: list(list(list(number, columns), units), heads),
      importances: list(list(number, units), heads),
      sink_values: maybe(list(list(number, columns), heads)),
      sink_importances: maybe(list(number, heads)),
    })(rest, where);
  };
}

/** The number of a unit. */
const unitOf = (units: number): Check => (number, at) => {
  whole(number, at);
  if ((number as number) >= units) throw new DataError(`${at} names unit ${number as number}, and there are ${units}`);
};

function bounded(units: number, columns: number, value: Fields, where: string): void {
  const many = Array.isArray(value["pairs"]) ? value["pairs"].length : 0;
  record({
    inner_values: list(list(number, columns), units),
    importances: list(number, units),
    inner_sink: list(number, columns),
    sink_importance: number,
    centre: list(number, columns),
    curvature: list(notNegative, columns),
    shapley: list(list(number, columns), units),
    pairs: list(list(unitOf(units), 2)),
    pair_values: list(list(number, columns), many),
    pair_importances: list(number, many),
  })(value, where);
}

function pairs(units: number, columns: number, value: Fields, where: string): void {
  const many = Array.isArray(value["pairs"]) ? value["pairs"].length : 0;
  record({ mains: list(list(number, columns), units), pairs: list(list(unitOf(units), 2)), joints: list(list(number, columns), many), full: list(number, columns) })(value, where);
}

function process(units: number, columns: number, value: Fields, where: string): void {
  const rows = Array.isArray(value["packed"]) ? value["packed"].length : 0;
  record({
    packed: list(list(whole, Math.ceil(units / BITS))),
    weights: list(list(number, columns), rows),
    full: list(number, columns),
    reaches: list(number, units),
    slopes: list(number, units),
    level: number,
    length_level: number,
    length_reach: number,
  })(value, where);
}

function column(units: number): Check {
  const byScore = (check: Check): Check => (value, where) => {
    for (const [name, entry] of Object.entries(object(value, where))) {
      if (!(SCORES as readonly string[]).includes(name)) throw new DataError(`${where} has the unknown score ${JSON.stringify(name.slice(0, 40))}`);
      check(entry, `${where}.${name}`);
    }
  };
  const scores = byScore(list(maybe(number), units));
  return record({
    scores, errors: scores, sources: byScore(oneOf(SOURCES)), sink: maybe(list(number, 2)), fidelity: maybe(fidelity), trust: text,
    effect: list(truth, units), range: maybe(list(number, 2)),
  });
}

/** Parses one block. */
export function parsed(json: string, where: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new DataError(`${where} is cut off or damaged: it is not JSON`);
  }
}

/** The list of texts. */
export function readIndex(json: string): Index {
  const data = object(parsed(json, "the list of texts"), "the list of texts");
  if (data["format"] !== FORMAT) fail("the report's format", `"${FORMAT}"`, data["format"]);
  if (data["version"] !== VERSION) {
    const given = JSON.stringify(data["version"])?.slice(0, 40) ?? "none";
    throw new DataError(`the report's data have version ${given} and this page reads version ${VERSION}: write the report again with one version of slalom-xai`);
  }
  const entry = record({ text, label: text, probability: maybe(number), prediction: number, names: list(text), items: list(whole) });
  record({ format: text, version: number, title: text, count: whole, texts: list(entry) })(data, "the list of texts");
  return data as unknown as Index;
}

/** One explanation. */
export function readExplanation(json: string, place: number): Predicting {
  const where = `explanation ${place + 1}`;
  const data = object(parsed(json, where), where);
  for (const name of ["units", "full", "labels"]) if (!Array.isArray(data[name])) fail(`${where}.${name}`, "a list", data[name]);
  const units = (data["units"] as unknown[]).length;
  const columns = (data["full"] as unknown[]).length;
  if (units === 0) throw new DataError(`${where} has no units`);
  record({
    model: text, method: text, granularity: text, removal: text, kind: text,
    labels: list(text), target: whole, full: list(number), highlight: oneOf(SCORES), function: surrogate(units, columns),
    units: list(text), spans: list(list(whole, 3), units), occurrences: list(whole),
    parts: list(list(piece(units))), left_out: whole, columns: list(maybe(column(units)), columns),
    calls: whole, calls_check: whole, notes: list(text), question: maybe(text), reply: maybe(text),
  }, ["question", "reply"])(data, where);
  const found = data as unknown as Predicting;
  if (found.target >= found.labels.length || found.columns[columnOf(found, found.target)] == null) {
    throw new DataError(`${where}.target is ${found.target}, and there are no scores for it`);
  }
  return found;
}

function piece(units: number): Check {
  return (value, where) => {
    if (!Array.isArray(value) || value.length !== 2) return fail(where, "a piece of text with its units", value);
    text(value[0], `${where}[0]`);
    list(whole)(value[1], `${where}[1]`);
    for (const unit of value[1] as number[]) if (unit >= units) throw new DataError(`${where} names unit ${unit}, and there are ${units}`);
  };
}

/** Two classes share one column. */
export const columnOf = (explanation: Explanation, target: number): number => (explanation.kind === "binary" ? 0 : target);

/** The first of two classes is the second with the other sign. */
export const signOf = (explanation: Explanation, target: number): number => (explanation.kind === "binary" && target === 0 ? -1 : 1);
