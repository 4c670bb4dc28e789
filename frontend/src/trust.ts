/** How far to trust an explanation: a sentence, and the agreement with the model of the two scores, of all of it and of a linear one. */
import type { Agreement, Fidelity } from "./data";
import { h } from "./dom";
import type { Model } from "./model";

export function trust(model: Model): HTMLElement {
  const element = h("section", { class: "trust", "aria-label": "How far to trust it" });
  const draw = () => {
    const { fidelity, trust: sentence } = model.data;
    const { explanation } = model;
    element.replaceChildren(h("p", { class: "sentence" }, sentence));
    if (fidelity) {
      const without = explanation.method === "linear"; // it would be beside itself
      element.append(h("div", { class: "pairs" }, bars("1 to 10 deleted", fidelity, "local", without), bars("any number deleted", fidelity, "wide", without)));
    }
    if (model.corrected) element.append(h("p", { class: "caption" }, "The two scores are value and importance. For an edited text, the explanation corrects what they predict."));
    for (const note of explanation.notes) element.append(h("p", { class: "caption" }, note));
    if (explanation.left_out) element.append(h("p", { class: "caption" }, `The last ${explanation.left_out} characters are left out: the model cannot read more.`));
    const calls = explanation.calls ? `${explanation.calls} model calls, ${explanation.calls_check} of them only for the test. ` : "";
    const sources = model.additive || model.fixed ? "" : "Measured: the model's own answer. Fitted: estimated from its answers to other texts. ";
    element.append(h("p", { class: "caption" }, `${calls}${sources}${model.hasErrors ? "± is one standard error." : ""}`));
  };
  model.listen((change) => {
    if (change === "target") draw();
  });
  draw();
  return element;
}

/** What each predicts of deletions of few or of many units. */
function bars(title: string, fidelity: Fidelity, part: "local" | "wide", withoutLinear: boolean): HTMLElement {
  const two = fidelity.two_scores?.[part] ?? null;
  const own = fidelity[part];
  const linear = withoutLinear ? null : fidelity[`linear_${part}`];
  const same = two !== null && two.r2 === own.r2 && two.mse === own.mse; // nothing is corrected
  return h("div", { class: "pair" }, h("p", {}, `Held-out R², ${title}`),
    two && bar("the two scores", two, "own"), same ? null : bar("the explanation", own, "whole"), linear && bar("linear", linear, "linear"));
}

function bar(name: string, { r2, r2_low: low, r2_high: high }: Agreement, kind: string): HTMLElement {
  const within = (share: number) => Math.max(0, Math.min(1, share));
  const fill = h("span", { class: `fill ${kind}` });
  fill.style.width = `${100 * within(r2 ?? 0)}%`;
  const track = h("span", { class: "track", "aria-hidden": "true" }, fill);
  let interval = "";
  if (low != null && high != null) {
    const whisker = h("span", { class: "whisker" });
    whisker.style.left = `${100 * within(low)}%`;
    whisker.style.width = `${100 * (within(high) - within(low))}%`;
    track.append(whisker);
    interval = ` (${shown(low)} to ${shown(high)})`;
  }
  return h("div", { class: "row" }, h("span", { class: "who" }, name), track, h("span", { class: "number" }, (r2 === null ? "–" : shown(r2)) + interval));
}

const shown = (r2: number): string => r2.toFixed(2).replace("-", "−");
