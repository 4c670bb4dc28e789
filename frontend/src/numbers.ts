/** Numbers for people, and scales for pictures. */

/** A number with its sign; the minus is as wide as the plus. */
export function signed(number: number | null | undefined, digits = 2): string {
  if (number === null || number === undefined) return "–";
  return (number < 0 ? "−" : "+") + size(number, digits);
}

/** A number without its sign: so many digits behind the point, and more where it would look like nothing. */
export function size(number: number, digits = 2): string {
  const size = Math.abs(number);
  if (size === 0 || (size < 1e5 && size >= 10 ** -digits / 2)) return size.toFixed(digits);
  return size < 1e5 && size >= 1e-4 ? size.toFixed(digits + 2) : size.toExponential(1);
}

/** A share in per cent, never rounded to certainty. */
export function percent(share: number): string {
  const shown = (100 * share).toFixed(1);
  if (shown === "100.0" && share < 1) return "> 99.9%";
  if (shown === "0.0" && share > 0) return "< 0.1%";
  return `${shown}%`;
}

/** A share in whole per cent, such as an R²; it can be below nothing. */
export function wholePercent(share: number | null | undefined): string {
  if (share == null) return "–";
  return `${Math.round(100 * share)}%`.replace("-", "−");
}

/** A predicted class with its probability, or the output where there is none. */
export function said(label: string | null, probability: number | null, output: number | null): string {
  const shown = probability === null ? (output === null ? "" : signed(output)) : percent(probability);
  return [label ?? "", shown].filter(Boolean).join(" ");
}

/** The ends of a set of numbers, those that are missing left out, with room around them. */
export function extent(numbers: Iterable<number | null | undefined>, room = 0.08): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const number of numbers) {
    if (number === null || number === undefined) continue;
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  if (low > high) return [-1, 1];
  const margin = (high - low || Math.abs(high) || 1) * room;
  return [low - margin, high + margin];
}

/** A linear scale. */
export const scale = (from: readonly [number, number], to: readonly [number, number]) => (number: number): number =>
  to[0] + ((number - from[0]) / (from[1] - from[0])) * (to[1] - to[0]);

/** Round numbers inside a range, about as many as asked for. */
export function ticks([low, high]: readonly [number, number], count: number): number[] {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw) ?? raw;
  const found: number[] = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9; place++) found.push(Number((place * step).toPrecision(12)));
  return found;
}

/** A tick's label: no more digits than the step needs. */
export function tickLabel(tick: number): string {
  const size = Math.abs(tick);
  const shown = size >= 1e5 || (size > 0 && size < 1e-3) ? size.toExponential(0) : String(Number(size.toPrecision(6)));
  return (tick < 0 ? "−" : "") + shown;
}

/** Scores as strengths in [-1, 1], by the largest. */
export function strengths(scores: readonly (number | null)[]): number[] {
  const largest = scores.reduce<number>((most, score) => Math.max(most, Math.abs(score ?? 0)), 0);
  return scores.map((score) => (largest > 0 ? (score ?? 0) / largest : 0));
}

/** Scores as strengths in [0, 1], from the least to the largest. */
export function ranks(scores: readonly (number | null)[]): number[] {
  const [low, high] = extent(scores, 0);
  return scores.map((score) => (score === null || high - low < 1e-12 ? 0.5 : (score - low) / (high - low)));
}

/** A label short enough for a picture. */
export function clipped(text: string, limit: number): string {
  const characters = Array.from(text.replace(/\s+/g, " ").trim() || "␣");
  return characters.length <= limit ? characters.join("") : characters.slice(0, limit - 1).join("") + "…";
}

/** About how wide a text is, in ems. */
export function ems(text: string): number {
  let width = 0;
  for (const character of text) width += character.codePointAt(0)! > 0x1100 ? 1.05 : "iljtfr.,;:'!|".includes(character) ? 0.34 : 0.58;
  return width;
}
