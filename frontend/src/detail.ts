/** One line with everything known about the unit under the pointer or the focus. */
import { h } from "./dom";
import type { Model } from "./model";
import { clipped, signed, size } from "./numbers";

export class Detail {
  readonly element: HTMLElement;
  private readonly name = h("strong", { dir: "auto" });
  private readonly scores = h("dl", {});
  private readonly none = h("p", { class: "caption" }, "Its effect cannot be told from noise: it has no numbers to read.");
  private readonly count = h("span", { class: "number" });
  private readonly stepper: HTMLElement;
  private readonly hint: HTMLElement;

  constructor(private readonly model: Model, id: string) {
    const step = (by: number, sign: string, label: string) =>
      h("button", { type: "button", class: "step", "aria-label": label, on: { click: () => this.step(by) } }, sign);
    this.stepper = h("span", { class: "stepper" }, "kept ", step(-1, "−", "one less"), this.count, step(1, "+", "one more"), " times");
    this.hint = h("p", { class: "caption" }, `Point at a ${model.piece}, or reach the text with Tab and walk with the arrow keys.`);
    this.element = h("div", { class: "detail" }, this.hint, h("p", { class: "title" }, this.name, model.fixed ? null : this.stepper), h("div", { id }, this.scores, this.none));
    model.listen(() => this.draw());
    this.draw();
  }

  private step(by: number): void {
    const { active, counts } = this.model;
    if (active !== null) this.model.setCount([active], counts[active]! + by);
  }

  private draw(): void {
    const { model } = this;
    const unit = model.active;
    this.hint.hidden = unit !== null;
    this.name.parentElement!.hidden = unit === null;
    this.none.hidden = unit === null || model.effect(unit);
    if (unit === null) return this.scores.replaceChildren();
    const occurrences = model.explanation.occurrences[unit] ?? 1;
    this.name.textContent = clipped(model.explanation.units[unit]!, 120) + (occurrences > 1 ? ` (stands ${occurrences} times)` : "");
    this.count.textContent = String(model.counts[unit]);
    this.scores.replaceChildren(...(model.effect(unit) ? model.shownNames : []).map((name) => {
      const error = model.error(name, unit);
      const source = model.source(name);
      return h("div", { class: name === model.score ? "chosen" : "", title: model.meaning(name), "data-score": name },
        h("dt", {}, h("span", {}, model.title(name)), source === null ? null : h("small", {}, ` ${source}`)), h("dd", {}, signed(model.scores(name)[unit]), error === null ? null : h("small", {}, ` ± ${size(error)}`)));
    }));
  }
}
