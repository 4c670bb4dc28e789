/** The picture beside the text: values against importances, or one score as bars. */
import { diamond, plane, ruler, type Plane } from "./axes";
import { freshId, h, s } from "./dom";
import type { Model } from "./model";
import { clipped, ems, extent, ranks, signed, strengths } from "./numbers";

const MOST_BARS = 40;
const MOST_ERRORS = 60; // more error bars than that hide the points
const ROW = 20;

interface Point {
  readonly unit: number;
  readonly x: number;
  readonly y: number;
  readonly mark: SVGElement;
}

export class Chart {
  readonly element: HTMLElement;
  private readonly picture = h("div", { class: "picture" });
  private readonly caption = h("p", { class: "caption" });
  private readonly id = freshId();
  private points: Point[] = [];
  private byUnit = new Map<number, Point>();
  private marks: SVGElement = s("g");
  private halo: SVGElement = s("g");
  private plane: Plane | null = null;
  private clip = "";
  private width = 0;
  private lit: Point | null = null;

  constructor(private readonly model: Model, private readonly picked: () => void) {
    this.element = h("figure", { class: "chart" }, this.picture, this.caption);
    model.listen((change) => {
      if (change === "active") this.light();
      else if (change === "counts") this.count();
      else this.draw();
    });
    new ResizeObserver(() => {
      const width = Math.round(this.picture.clientWidth);
      if (width > 0 && Math.abs(width - this.width) > 1) {
        this.width = width;
        this.draw();
      }
    }).observe(this.picture);
  }

  private draw(): void {
    if (this.width === 0) return;
    const { model } = this;
    this.points = [];
    this.lit = null;
    const svg = model.chart === "bars" || model.additive ? this.bars() : this.scatter();
    this.byUnit = new Map(this.points.map((point) => [point.unit, point]));
    svg.addEventListener("pointermove", (event) => this.hover(svg, event, 28));
    svg.addEventListener("click", (event) => {
      this.hover(svg, event, 40);
      this.picked();
    });
    // What lights up lies in a picture of its own above the other, which then need not be painted again.
    const [width, height] = [svg.getAttribute("width"), svg.getAttribute("height")];
    this.picture.replaceChildren(h("div", { class: "layers" }, svg, s("svg", { class: "overlay", width, height, "aria-hidden": "true" }, this.halo)));
    this.count();
    this.light();
  }

  /** Marks can be walked through with the arrow keys, like the options of a list. */
  private list(label: string): SVGElement {
    this.marks = s("g", { class: "marks", role: "listbox", tabindex: 0, "aria-label": label });
    this.marks.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step === undefined || this.points.length === 0) return;
      event.preventDefault();
      const ordered = this.model.chart === "scatter" && !this.model.additive ? this.ordered(event.key) : this.points;
      const here = ordered.findIndex((point) => point.unit === this.model.active);
      const next = here < 0 ? 0 : Math.max(0, Math.min(ordered.length - 1, here + step));
      this.model.activate(ordered[next]!.unit);
      this.picked();
    });
    this.marks.addEventListener("focus", () => {
      if (this.model.active === null && this.points[0]) this.model.activate(this.points[0].unit);
    });
    return this.marks;
  }
  private ordered(key: string): Point[] {
    const sideways = key === "ArrowLeft" || key === "ArrowRight";
    return [...this.points].sort((a, b) => (sideways ? a.x - b.x : a.y - b.y));
  }

  private option(unit: number, mark: SVGElement): SVGElement {
    mark.setAttribute("role", "option");
    mark.setAttribute("id", `${this.id}-${unit}`);
    mark.setAttribute("aria-selected", "false");
    mark.setAttribute("aria-label", clipped(this.model.explanation.units[unit]!, 60));
    return mark;
  }

  private hover(svg: SVGSVGElement, event: MouseEvent, reach: number): void {
    const box = svg.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const bars = this.model.chart === "bars" || this.model.additive;
    let best: Point | null = null;
    let least = bars ? ROW / 2 : reach;
    for (const point of this.points) {
      const distance = bars ? Math.abs(point.y - y) : Math.hypot(point.x - x, point.y - y);
      if (distance < least) [best, least] = [point, distance];
    }
    if (best) this.model.activate(best.unit);
  }

  private tone(unit: number, strength: readonly number[]): { class: string; "fill-opacity": string } {
    if (!this.model.effect(unit)) return { class: "faint", "fill-opacity": "0.35" };
    const amount = strength[unit]!;
    const tone = this.model.score === "importance" ? "neutral" : amount > 0 ? "up" : amount < 0 ? "down" : "none";
    return { class: tone, "fill-opacity": (0.25 + 0.75 * Math.abs(amount) ** 0.7).toFixed(2) };
  }
  private strength(): number[] {
    return this.model.score === "importance" ? ranks(this.model.scores()) : strengths(this.model.scores());
  }

  private scatter(): SVGSVGElement {
    const { model, width } = this;
    const height = Math.max(280, Math.min(440, Math.round(width * 0.72)));
    const strength = this.strength();
    const barred = this.barred(strength);
    const sink = model.sink();
    const whole = model.predicted(model.counts.map(() => 1))?.output ?? model.own().output;
    const points = extent([...this.reach("value", barred), whole, 0, sink?.[0]], 0);
    const room = (points[1] - points[0]) / 2; // an end of the range that is further away would squeeze everything else
    const bounds = (model.range() ?? []).filter((end) => end > points[0] - room && end < points[1] + room);
    const across = extent([...points, ...bounds]);
    const up = extent([...this.reach("importance", barred), sink?.[1]]);
    const { x, y, axes, frame } = (this.plane = plane(across, up, width, height, whole, bounds));
    if (sink) axes.append(...diamond(x(sink[0]), y(sink[1])));
    const marks = this.list("Units by value and importance");
    const importances = model.fitted("importance");
    model.fitted("value").forEach((value, unit) => {
      const [px, py] = [x(value ?? 0), y(importances[unit] ?? 0)];
      const mark = this.option(unit, s("circle", { cx: px.toFixed(1), cy: py.toFixed(1), r: model.effect(unit) ? 5 : 3, ...this.tone(unit, strength) }));
      marks.append(mark);
      this.points.push({ unit, x: px, y: py, mark });
    });
    this.caption.textContent =
      `Each point is one ${model.piece}; higher points weigh more. The dashed line is the prediction for the whole text` +
      (model.fixed ? "." : `: points right of it ${model.bounded ? "mostly " : ""}pull the output up, left of it down.`) + ` Colours show ${model.title(model.score)}.` +
      (model.without ? ` Grey: no effect.` : "") +
      (sink && !model.fixed ? ` The sink ${model.bounded ? `takes the place of each ${model.piece} that is removed` : "is always there"}.` : "") +
      (bounds.length > 0 ? ` Dotted: ${bounds.length === 2 ? "the ends" : "an end"} of the range of the model output.` : "") +
      (!model.errors ? "" : barred.size < importances.length - model.without ? ` Bars: one standard error, for the ${barred.size} strongest and the one you point at.` : " Bars: one standard error.");
    const clip = freshId();
    this.clip = `url(#${clip})`;
    this.halo = s("g", { class: "halo" });
    return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Scatter of values and importances" },
      s("clipPath", { id: clip }, s("rect", { ...frame })), axes,
      s("g", { class: "errors", "aria-hidden": "true", "clip-path": this.clip }, ...[...barred].flatMap((unit) => this.cross(unit))),
      marks, this.labels(width, height, strength));
  }

  /** How far the points reach, with the error bars that are drawn. */
  private reach(name: "value" | "importance", barred: ReadonlySet<number>): number[] {
    const scores = this.model.fitted(name);
    const most = spread(scores);
    return scores.flatMap((score, unit) => {
      const error = barred.has(unit) ? Math.min(this.model.error(name, unit) ?? 0, most) : 0;
      return [(score ?? 0) - error, (score ?? 0) + error];
    });
  }

  /** The units whose error bars are drawn. */
  private barred(strength: readonly number[]): Set<number> {
    if (!this.model.errors) return new Set();
    const order = strength.map((_, unit) => unit).filter((unit) => this.model.effect(unit)).sort((a, b) => Math.abs(strength[b]!) - Math.abs(strength[a]!));
    return new Set(order.length <= MOST_ERRORS ? order : order.slice(0, MOST_ERRORS / 3));
  }
  /** One unit's error bars in the scatter. */
  private cross(unit: number): SVGElement[] {
    const { model } = this;
    const { x, y } = this.plane!;
    const [value, importance] = [model.scores("value")[unit] ?? 0, model.scores("importance")[unit] ?? 0];
    const [across, up] = [model.error("value", unit), model.error("importance", unit)];
    const lines: SVGElement[] = [];
    if (across !== null) lines.push(s("line", { x1: x(value - across), x2: x(value + across), y1: y(importance), y2: y(importance) }));
    if (up !== null) lines.push(s("line", { x1: x(value), x2: x(value), y1: y(importance - up), y2: y(importance + up) }));
    return lines;
  }

  /** Names of the strongest points, where there is room for them. */
  private labels(width: number, height: number, strength: readonly number[]): SVGElement {
    const group = s("g", { class: "labels", "aria-hidden": "true" });
    const taken: [number, number, number, number][] = [];
    const order = this.points.filter(({ unit }) => this.model.effect(unit)).sort((a, b) => Math.abs(strength[b.unit]!) - Math.abs(strength[a.unit]!));
    const near = order.slice(0, 400);
    let left = Math.round(width / 22);
    for (const point of order.slice(0, 80)) {
      if (left === 0) break;
      const text = clipped(this.model.explanation.units[point.unit]!, 16);
      const wide = ems(text) * 11.5;
      const spots: [number, number][] = [[point.x + 8, point.y - 6], [point.x - 8 - wide, point.y - 6], [point.x - wide / 2, point.y - 20], [point.x - wide / 2, point.y + 8]];
      const free = spots.find(([a, b]) =>
        a > 48 && a + wide < width - 4 && b > 10 && b + 13 < height - 40 &&
        taken.every(([ta, tb, tc, td]) => a > tc || a + wide < ta || b > td || b + 13 < tb) &&
        near.every((other) => other === point || other.x < a - 4 || other.x > a + wide + 4 || other.y < b - 3 || other.y > b + 16));
      if (!free) continue;
      taken.push([free[0], free[1], free[0] + wide, free[1] + 13]);
      group.append(s("text", { x: free[0].toFixed(1), y: (free[1] + 10).toFixed(1), class: "label" }, text));
      left--;
    }
    return group;
  }

  private bars(): SVGSVGElement {
    const { model, width } = this;
    const scores = model.scores();
    const sorted = scores.map((score, unit) => ({ unit, score: score ?? 0 })).filter(({ unit }) => model.effect(unit)).sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
    const shown = sorted.slice(0, MOST_BARS).sort((a, b) => b.score - a.score);
    const height = shown.length * ROW + 30;
    const names = Math.min(width * 0.34, 150);
    const most = spread(scores);
    const error = (unit: number) => (model.errors ? Math.min(model.error(model.score, unit) ?? 0, most) : 0);
    const across = extent([0, ...shown.flatMap(({ unit, score }) => [score - error(unit), score + error(unit)])], 0.04);
    const { x, axes } = ruler(across, names + 8, width - 52, height);
    const marks = this.list(`Units by ${model.title(model.score)}`);
    const rest = s("g", { class: "labels", "aria-hidden": "true" });
    const strength = this.strength();
    shown.forEach(({ unit, score }, row) => {
      const y = row * ROW + ROW / 2;
      const [left, right] = [Math.min(x(0), x(score)), Math.max(x(0), x(score))];
      marks.append(this.option(unit, s("rect", { x: left, y: y - 6, width: Math.max(right - left, 1), height: 12, ...this.tone(unit, strength) })));
      const limit = Math.max(4, Math.floor(names / 7));
      rest.append(
        s("text", { x: names, y: y + 4, "text-anchor": "end", class: "label" }, clipped(model.explanation.units[unit]!, limit)),
        s("text", { x: width - 2, y: y + 4, "text-anchor": "end", class: "label" }, signed(score)),
      );
      if (error(unit) > 0) rest.append(s("line", { x1: x(score - error(unit)), x2: x(score + error(unit)), y1: y, y2: y, class: "error" }));
      this.points.push({ unit, x: x(score), y, mark: marks.lastElementChild as SVGElement });
    });
    this.halo = s("g", { class: "halo" });
    this.caption.textContent =
      (model.additive ? "This method gives one score per unit and no importance, so a bar chart stands in for the scatter. " : "") +
      (shown.length < sorted.length ? `The ${shown.length} strongest of ${sorted.length}. ` : "") +
      (model.without ? `${model.without} without effect ${model.without === 1 ? "is" : "are"} left out. ` : "") +
      `${model.title(model.score)}: ${model.meaning(model.score)}.` + (model.errors ? " Lines: one standard error." : "");
    return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Bars" }, axes, marks, rest);
  }

  private light(): void {
    this.lit?.mark.setAttribute("aria-selected", "false");
    const { active } = this.model;
    const point = active === null ? undefined : this.byUnit.get(active);
    this.lit = point ?? null;
    this.halo.replaceChildren();
    if (!point) return;
    point.mark.setAttribute("aria-selected", "true");
    this.marks.setAttribute("aria-activedescendant", point.mark.id);
    if (this.model.chart === "bars" || this.model.additive) {
      this.halo.append(s("rect", { x: 1, y: point.y - ROW / 2 + 1, width: this.width - 2, height: ROW - 2, rx: 4 }));
      return;
    }
    const text = clipped(this.model.explanation.units[point.unit]!, 24);
    const wide = ems(text) * 12 + 10;
    const left = Math.max(2, Math.min(this.width - wide - 2, point.x - wide / 2));
    const top = point.y > 40 ? point.y - 32 : point.y + 12;
    if (this.model.errors) this.halo.append(s("g", { "clip-path": this.clip }, ...this.cross(point.unit)));
    this.halo.append(s("circle", { cx: point.x, cy: point.y, r: 9 }), s("rect", { x: left, y: top, width: wide, height: 20, rx: 4, class: "tag" }),
      s("text", { x: left + wide / 2, y: top + 14, "text-anchor": "middle" }, text));
  }

  private count(): void {
    for (const point of this.points) point.mark.classList.toggle("removed", this.model.counts[point.unit] === 0);
  }
}

/** How far scores reach: an error bar beyond it would squeeze everything else. */
function spread(scores: readonly (number | null)[]): number {
  const [low, high] = extent(scores, 0);
  return high - low || 1;
}
