/** What a visitor sees before anything was asked. */
import { h } from "../dom";

export function emptyState(example: () => void): HTMLElement {
  return h("section", { class: "panel empty", "aria-labelledby": "slalom-empty" },
    h("h2", { id: "slalom-empty" }, "What does the classifier do with the words it reads?"),
    h("p", {}, "Paste a text above. Every word of it gets two scores, because a model can be sure about a word and still hardly listen to it."),
    h("dl", { class: "teach" },
      h("div", {}, h("dt", {}, "Value"), h("dd", {}, "What the model answers if this word fills the text: ", sample("dull", "down"), " or ", sample("wonderful", "up"), ".")),
      h("div", {}, h("dt", {}, "Importance"), h("dd", {}, "How loudly the word speaks against the others: ", sample("the", "soft"), " or ", sample("truly", "loud"), "."))),
    h("p", {}, "Then leave words out or repeat them. The page says at once what the explanation predicts, and the model itself says how far that is right."),
    h("div", { class: "bar" }, h("button", { type: "button", class: "primary", on: { click: example } }, "Explain an example"), h("span", { class: "caption" }, "A short film review; it takes some seconds.")));
}

const sample = (text: string, kind: string): HTMLElement => h("span", { class: `sample ${kind}` }, text);
