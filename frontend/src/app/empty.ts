/** What a visitor sees before anything was asked. */
import { plane } from "../axes";
import { freshId, h, s } from "../dom";

const WORDS: readonly (readonly [string, number, number])[] = [["dull", -3.3, 3.1], ["tired", -2.5, 1.7], ["wonderful", 3.1, 3.4], ["warm", 2.3, 1.2], ["plot", -1, -0.5], ["the", 0.4, -1.1]];

export function emptyState(example: () => void): HTMLElement {
  const title = freshId();
  return h("section", { class: "panel empty", "aria-labelledby": title }, words(title, example), picture());
}

function words(title: string, example: () => void): HTMLElement {
  return h("div", { class: "lesson" },
    h("h2", { id: title }, "What does the classifier do with the words it reads?"),
    h("p", {}, "Paste a text above. Every word of it gets two scores, because a model can be sure about a word and still hardly hear it."),
    h("dl", { class: "teach" },
      h("div", {}, h("dt", {}, "Value"), h("dd", {}, "The model output that the word argues for: ", sample("dull", "down"), " or ", sample("wonderful", "up"), ".")),
      h("div", {}, h("dt", {}, "Importance"), h("dd", {}, "How strongly the word is heard against the others: ", sample("the", "weak"), " or ", sample("truly", "strong"), "."))),
    h("p", {}, "Then remove words or repeat them. The page says at once what the explanation predicts, and the model itself says how far that is right."),
    h("div", { class: "bar" }, h("button", { type: "button", class: "primary", on: { click: example } }, "Explain an example"), h("span", { class: "caption" }, "A short film review; it takes some seconds.")));
}

const sample = (text: string, kind: string): HTMLElement => h("span", { class: `sample ${kind}` }, text);

/** Six words as the view would show them. */
function picture(): HTMLElement {
  const [width, height] = [420, 270];
  const { x, y, axes } = plane([-4.4, 4.4], [-2, 4.2], width, height, 1.2);
  const marks = WORDS.flatMap(([text, value, importance]) => [
    s("circle", { cx: x(value), cy: y(importance), r: 6, class: value < 0 ? "down" : "up", "fill-opacity": importance > 1 ? 0.85 : 0.3 }),
    s("text", { x: x(value), y: y(importance) - 11, "text-anchor": "middle", class: "label" }, text)]);
  return h("figure", { class: "teaching" },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, axes, s("g", { class: "marks" }, ...marks)),
    h("figcaption", { class: "caption" }, "Words on the right speak for a class, words on the left against it. The higher a word, the more it is heard."));
}
