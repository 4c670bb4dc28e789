/** How far to trust an explanation: one sentence, and behind one click the held-out agreement that it rests on, beside simpler explanations. */
import type { Agreement, Fidelity, FewAndAny } from "./data";
import { h } from "./dom";
import type { Model } from "./model";
import { wholePercent } from "./numbers";

export function trust(model: Model): HTMLElement {
  const sentence = h("p", { class: "sentence" });
  const tested = h("div", { class: "parts" });
  const { explanation } = model;
  const draw = () => {
    const { fidelity, trust } = model.data;
    sentence.textContent = trust;
    const calls = explanation.calls ? `${explanation.calls} model calls, ${explanation.calls_check} of them only for the test. ` : "";
    const sources = model.additive || model.fixed ? "" : "Measured: the model's own output. Fitted: estimated from its outputs for other texts. ";
    tested.replaceChildren(
      ...(fidelity ? [bars(`1 to 10 ${model.piece}s removed`, model, fidelity, "few"), bars("any number removed", model, fidelity, "any")] : []),
      h("p", { class: "caption" }, `${calls}${sources}${model.hasErrors ? "± is one standard error." : ""}`));
  };
  model.listen((change) => {
    if (change === "target") draw();
  });
  draw();
  return h("section", { class: "trust", "aria-label": "How far to trust it" }, sentence,
    ...explanation.notes.map((note) => h("p", { class: "caption" }, note)),
    explanation.left_out ? h("p", { class: "caption" }, `The last ${explanation.left_out} characters are left out: the model cannot read more.`) : null,
    h("details", { class: "tested" }, h("summary", {}, "How it was tested"), tested));
}

/** What each explanation reproduces of what removing few or any number of units does; none stands beside itself. */
function bars(title: string, { explanation, additive }: Model, fidelity: Fidelity, part: keyof FewAndAny): HTMLElement {
  const { linear, one_score: one } = fidelity;
  return h("div", { class: "part" }, h("p", {}, `Held-out R², ${title}`),
    bar(additive ? "this explanation" : "these scores", fidelity[part], "own"),
    one && explanation.method !== "one-score" ? bar("one score each", one[part], "baseline") : null,
    linear && explanation.method !== "linear" ? bar("linear", linear[part], "baseline") : null);
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
    interval = ` (${wholePercent(low)} to ${wholePercent(high)})`;
  }
  return h("div", { class: "row" }, h("span", { class: "who" }, name), track, h("span", { class: "number" }, wholePercent(r2) + interval));
}
