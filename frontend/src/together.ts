/** The pairs of units that are heard together, such as "not good": part of the formula, and so of its predictions. */
import { h } from "./dom";
import type { Model } from "./model";
import { signed } from "./numbers";

export function together(model: Model): HTMLElement | null {
  if (model.together().length === 0) return null;
  const body = h("tbody");
  const draw = () => body.replaceChildren(...model.together().map(({ texts, value, importance }) => h("tr", {},
    h("th", { scope: "row" }, ...texts.flatMap((text, place) => [place > 0 ? " " : "", h("bdi", {}, text.trim() || "␣")])),
    h("td", {}, signed(value)), h("td", {}, signed(importance)))));
  draw();
  model.listen((change) => {
    if (change === "target") draw();
  });
  const header = (title: string) => h("th", { scope: "col" }, title);
  return h("section", { class: "together" },
    h("table", {}, h("caption", {}, "Heard together", h("small", {}, ` one more ${model.piece} of the formula while both ${model.piece}s are there`)),
      h("thead", {}, h("tr", {}, header(`two ${model.piece}s`), header(model.title("value")), header(model.title("importance")))), body));
}
