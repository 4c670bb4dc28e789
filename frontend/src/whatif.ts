/** What the explanation predicts for the text as the reader has edited it; the model is not called. */
import { choice, h } from "./dom";
import { removalOf, type ClickMode, type Model, type Prediction } from "./model";
import { percent, signed } from "./numbers";

export class WhatIf {
  readonly element: HTMLElement;
  private readonly result = h("output", { class: "result", "aria-live": "polite" });
  private readonly gauge = h("div", { class: "gauge", "aria-hidden": "true" });
  private readonly undo: HTMLButtonElement;

  constructor(private readonly model: Model) {
    const { removal } = model.explanation;
    this.undo = h("button", { type: "button", class: "reset", on: { click: () => model.reset() } }, "Reset");
    this.element = h("section", { class: "whatif", "aria-label": "What if" }, this.result, this.gauge,
      h("div", { class: "bar" },
        choice<ClickMode>("A click on a word", [["remove", "removes it"], ["repeat", "repeats it"], ["select", "only selects"]], model.mode, (mode) => (model.mode = mode)),
        this.undo),
      h("p", { class: "caption" }, `A removed ${model.piece} is ${removalOf(removal)}${removal === "hide" ? "; the others keep their positions" : ""}.`));
    model.listen((change) => {
      if (change === "counts" || change === "target") this.draw();
    });
    this.draw();
  }

  private draw(): void {
    const { model } = this;
    const whole = model.predicted(model.counts.map(() => 1))!;
    const now = model.edited ? model.predicted() : whole;
    this.undo.setAttribute("aria-disabled", String(!model.edited)); // not disabled: that would take the focus away
    this.result.replaceChildren(h("span", {}, `The explanation predicts ${model.unit} `, number(whole, "whole"), " for the whole text."));
    if (model.edited) this.result.append(" ", now === null ? this.nothing() : this.edited(now, whole));
    this.bar(whole, now);
  }

  private edited(now: Prediction, whole: Prediction): HTMLElement {
    const { counts, additive, bounded } = this.model;
    const removed = counts.filter((count) => count === 0).length;
    const repeated = counts.filter((count) => count > 1).length;
    const edits = [removed ? `${removed} removed` : "", repeated ? `${repeated} repeated` : ""].filter(Boolean).join(" and ");
    const base = additive ? "the method's base value" : bounded ? "the sink's value" : "the prediction for an empty text";
    const empty = removed === counts.length ? ` Nothing is left: this is ${base}.` : "";
    return h("strong", {}, `With ${edits}: `, number(now, "edited"), `, a change of ${signed(now.output - whole.output)}.`, empty);
  }

  private nothing(): HTMLElement {
    return h("strong", { class: "nothing" }, "Nothing is left. This explanation has no sink, so it does not know the model output for an empty text: keep at least one.");
  }

  /** Two marks on a line from 0 to 100%, or around the whole text's output where there are no probabilities. */
  private bar(whole: Prediction, now: Prediction | null): void {
    const place = (prediction: Prediction) => prediction.probability ?? 0.5 + Math.atan((prediction.output - whole.output) / (Math.abs(whole.output) || 1)) / Math.PI;
    const mark = (prediction: Prediction, kind: string) => {
      const element = h("span", { class: kind });
      element.style.left = `${(100 * place(prediction)).toFixed(2)}%`;
      return element;
    };
    this.gauge.replaceChildren(mark(whole, "before"), ...(now && this.model.edited ? [mark(now, "after")] : []));
    this.gauge.classList.toggle("plain", whole.probability === null);
  }
}

/** A number with its exact value for programs. */
export function number(prediction: Prediction, kind: string): HTMLElement {
  return h("data", { value: prediction.output, "data-kind": kind, "data-probability": prediction.probability },
    signed(prediction.output) + (prediction.probability === null ? "" : ` (${percent(prediction.probability)})`));
}
