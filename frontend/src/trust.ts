/** How far to trust an explanation: a sentence, and its agreement with the model beside a linear one's. */
import type { Agreement } from "./data";
import { h } from "./dom";
import type { Model } from "./model";

export function trust(model: Model): HTMLElement {
  const element = h("section", { class: "trust", "aria-label": "How far to trust it" });
  const draw = () => {
    const { fidelity, trust: sentence } = model.data;
    const { explanation } = model;
    element.replaceChildren(h("p", { class: "sentence" }, sentence));
    if (fidelity) {
      const own = model.explanation.method;
      element.append(h("div", { class: "pairs" },
        pair("1 to 10 deleted", own, fidelity.local, fidelity.linear_local), pair("any number deleted", own, fidelity.wide, fidelity.linear_wide)));
    }
    const heads = explanation.function.kind === "slalom" ? explanation.function.values.length : 1;
    if (heads > 1) element.append(h("p", { class: "caption" }, `This explanation has ${heads} heads. Predictions use all of them; one value and one importance per unit cannot say all they say.`));
    for (const note of explanation.notes) element.append(h("p", { class: "caption" }, note));
    if (explanation.left_out) element.append(h("p", { class: "caption" }, `The last ${explanation.left_out} characters are left out: the model cannot read more.`));
    const calls = explanation.calls ? `${explanation.calls} model calls, ${explanation.calls_check} of them only for the test. ` : "";
    element.append(h("p", { class: "caption" }, `${calls}± is one standard error.`));
  };
  model.listen((change) => {
    if (change === "target") draw();
  });
  draw();
  return element;
}

function pair(title: string, method: string, own: Agreement, linear: Agreement): HTMLElement {
  return h("div", { class: "pair" }, h("p", {}, `Held-out R², ${title}`), bar(method, own, "own"),
    method === "linear" ? null : bar("linear", linear, "linear"));
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
    interval = ` (${low.toFixed(2)} to ${high.toFixed(2)})`;
  }
  return h("div", { class: "row" }, h("span", { class: "who" }, name), track, h("span", { class: "number" }, (r2 === null ? "–" : r2.toFixed(2).replace("-", "−")) + interval));
}
