/** What the explanation predicts for the text as the reader has edited it; no model is asked. */
import { choice, h } from "./dom";
import type { ClickMode, Model, Prediction } from "./model";
import { percent, signed } from "./numbers";

const STANDS_IN: Readonly<Record<string, string>> = { mask: "the mask token", unk: "the unknown token" };

export class WhatIf {
  readonly element: HTMLElement;
  private readonly result = h("output", { class: "result", "aria-live": "polite" });
  private readonly gauge = h("div", { class: "gauge", "aria-hidden": "true" });
  private readonly undo: HTMLButtonElement;

  constructor(private readonly model: Model) {
    this.undo = h("button", { type: "button", class: "reset", on: { click: () => model.reset() } }, "Reset");
    this.element = h("section", { class: "whatif", "aria-label": "What if" }, this.result, this.gauge,
      h("div", { class: "bar" },
        choice<ClickMode>("A click on a word", [["remove", "removes it"], ["repeat", "repeats it"], ["select", "only selects"]], model.mode, (mode) => (model.mode = mode)),
        this.undo),
      model.explanation.removal in STANDS_IN ? h("p", { class: "caption" }, `To remove is to put ${STANDS_IN[model.explanation.removal]} in its place, as the explanation did.`) : null);
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
    const { counts } = this.model;
    const removed = counts.filter((count) => count === 0).length;
    const repeated = counts.filter((count) => count > 1).length;
    const edits = [removed ? `${removed} removed` : "", repeated ? `${repeated} repeated` : ""].filter(Boolean).join(" and ");
    const empty = removed === counts.length ? this.model.additive ? " Nothing is left: this is the method's base value." : " Nothing is left: this is the prediction for an empty text." : "";
    return h("strong", {}, `With ${edits}: `, number(now, "edited"), `, a change of ${signed(now.output - whole.output)}`, ...this.length(), ".", empty);
  }

  /** The part of the change that is no word's doing. */
  private length(): (Node | string)[] {
    const { model } = this;
    const part = model.lengthPart();
    if (part === 0) return [];
    const why = model.counts.some((count) => count > 1) ? `${model.piece}s are missing, whichever they are`
      : model.explanation.removal in STANDS_IN ? `fewer ${model.piece}s are left, whichever they are` : `the text is shorter, whichever ${model.piece}s go`;
    return [", of which ", h("data", { value: part, "data-kind": "length" }, signed(part)), ` because ${why}`];
  }

  private nothing(): HTMLElement {
    return h("strong", { class: "nothing" }, "Nothing is left. This explanation has no sink, so it cannot say what the model answers to an empty text: keep at least one.");
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
