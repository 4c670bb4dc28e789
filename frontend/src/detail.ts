/** One line with everything known about the unit under the pointer or the focus. */
import { h } from "./dom";
import type { Model } from "./model";
import { clipped, signed, size } from "./numbers";

export class Detail {
  readonly element: HTMLElement;
  private readonly name = h("strong", { dir: "auto" });
  private readonly scores = h("dl", {});
  private readonly pairs = h("p", { class: "caption pairs" });
  private readonly count = h("span", { class: "number" });
  private readonly stepper: HTMLElement;
  private readonly hint: HTMLElement;

  constructor(private readonly model: Model, id: string) {
    const step = (by: number, sign: string, label: string) =>
      h("button", { type: "button", class: "step", "aria-label": label, on: { click: () => this.step(by) } }, sign);
    this.stepper = h("span", { class: "stepper" }, "kept ", step(-1, "−", "one less"), this.count, step(1, "+", "one more"), " times");
    this.hint = h("p", { class: "caption" }, `Point at a ${model.piece}, or reach the text with Tab and walk with the arrow keys.`);
    this.element = h("div", { class: "detail" }, this.hint, h("p", { class: "title" }, this.name, model.fixed ? null : this.stepper), h("div", { id }, this.scores, this.pairs));
    this.pairs.hidden = !model.hasPairs; // where there are any, room is kept: nothing below may move under the pointer
    model.listen(() => this.draw());
    this.draw();
  }

  private step(by: number): void {
    const { active, counts } = this.model;
    if (active !== null) this.model.setCount([active], counts[active]! + by);
  }

  /** What a unit does together with others, in a sentence. */
  private together(unit: number): string {
    const pairs = this.model.pairsOf(unit).map(({ other, strength, error }) =>
      `“${clipped(this.model.explanation.units[other]!, 40)}” ${signed(strength)}${error > 0 ? ` ± ${size(error)}` : ""}`);
    return pairs.length === 0 ? "" : `Together with ${pairs.join(", ")} (measured), beyond what each does by itself.`;
  }

  private draw(): void {
    const { model } = this;
    const unit = model.active;
    this.hint.hidden = unit !== null;
    this.name.parentElement!.hidden = unit === null;
    this.pairs.textContent = unit === null ? "" : this.together(unit);
    if (unit === null) return this.scores.replaceChildren();
    const occurrences = model.explanation.occurrences[unit] ?? 1;
    this.name.textContent = clipped(model.explanation.units[unit]!, 120) + (occurrences > 1 ? ` (stands ${occurrences} times)` : "");
    this.count.textContent = String(model.counts[unit]);
    this.scores.replaceChildren(...model.shownNames.map((name) => {
      const error = model.error(name, unit);
      const source = model.source(name);
      return h("div", { class: name === model.score ? "chosen" : "", title: model.meaning(name), "data-score": name },
        h("dt", {}, h("span", {}, model.title(name)), source === null ? null : h("small", {}, ` ${source}`)), h("dd", {}, signed(model.scores(name)[unit]), error === null ? null : h("small", {}, ` ± ${size(error)}`)));
    }));
  }
}
