/** One explanation: text, picture, numbers, trust, what-if. */
import { Chart } from "./chart";
import type { Explanation, Score } from "./data";
import { Detail } from "./detail";
import { choice, freshId, h } from "./dom";
import type { Model, Chart as ChartKind } from "./model";
import { percent, signed } from "./numbers";
import { UnitTable } from "./table";
import { trust } from "./trust";
import { WhatIf } from "./whatif";
import { Words } from "./words";

/** What a page adds to a card. */
export interface Extras {
  readonly tools?: Node; // beside the heading
  readonly whatif?: Node; // below the what-if
}

export class Card {
  readonly element: HTMLElement;

  constructor(readonly model: Model, alone: boolean, private readonly extras: Extras = {}) {
    const { explanation } = model;
    const detailId = freshId();
    const words = new Words(model, detailId);
    const chart = new Chart(model, () => words.reveal());
    const detail = new Detail(model, detailId).element;
    const whatif = model.fixed ? null : new WhatIf(model);
    if (extras.whatif) whatif?.element.append(extras.whatif);
    // Beside a long text there is room below the picture, beside the picture there is room below a short text.
    const long = explanation.parts.flat().reduce((sum, [text]) => sum + text.length, 0) > 450;
    this.element = h("article", { class: "card" }, this.heading(), this.controls(),
      h("div", { class: "columns" },
        h("div", { class: "left" }, h("div", { class: "reading" }, words.element, legend(model)), long ? null : detail, whatif && whatif.element),
        h("div", { class: "right" }, chart.element, long ? detail : null)),
      trust(model), new UnitTable(model, alone).element);
  }

  private heading(): HTMLElement {
    const { model } = this;
    const { explanation } = model;
    const answer = h("p", { class: "answer" });
    const draw = () => {
      const own = model.own();
      const said = model.predictedLabel();
      if (said !== null && said.label === model.label) {
        answer.replaceChildren("The model predicts ", h("strong", {}, said.label), ` (${percent(said.probability)}), ${model.unit} ${signed(own.output)}.`);
        return;
      }
      if (said !== null) answer.replaceChildren("The model predicts ", h("strong", {}, said.label), ` (${percent(said.probability)}). Explained: `);
      else answer.replaceChildren(explanation.reply == null ? "The model on " : "Explained: ");
      answer.append(h("strong", {}, model.label), own.probability === null ? "" : `, probability ${percent(own.probability)}`,
        `, ${model.unit} ${signed(own.output)}.`);
    };
    draw();
    const scored = explanation.labels.map((_, index) => index).filter((index) => explanation.columns[explanation.kind === "binary" ? 0 : index]);
    const select = h("select", { "aria-label": "Explained label", on: { change: () => this.target(Number(select.value)) } },
      ...scored.map((index) => h("option", { value: index, selected: index === model.target }, explanation.labels[index]!)));
    model.listen((change) => {
      if (change === "target") draw();
    });
    const name = [explanation.method, explanation.model].filter(Boolean).join(" · ");
    return h("header", {}, h("h2", {}, name), conversation(explanation), answer, scored.length > 1 ? h("label", { class: "target" }, "Explain ", select) : null, this.extras.tools ?? null);
  }

  private target(target: number): void {
    this.model.target = target;
    this.model.change("target");
  }

  private controls(): HTMLElement {
    const { model } = this;
    const hint = h("span", { class: "caption" });
    const say = () => {
      const source = model.source(model.score);
      hint.textContent = `${model.title(model.score)}${source === null ? "" : ` (${source})`}: ${model.meaning(model.score)}`;
    };
    say();
    const scores = h("div", { class: "scores" });
    const offer = () => scores.replaceChildren(
      choice<Score>("Colour shows", model.shownNames.map((name) => [name, model.title(name)] as const), model.score, (score) => {
        model.score = score;
        model.change("score");
      }));
    offer();
    const bar = h("div", { class: "bar controls" }, scores, this.more());
    model.listen((change) => {
      if (change === "score" || change === "target") say();
      else if (change === "more") offer();
    });
    if (!model.additive) {
      bar.append(choice<ChartKind>("Picture", [["scatter", "scatter"], ["bars", "bars"]], model.chart, (kind) => {
        model.chart = kind;
        model.change("chart");
      }));
    }
    if (model.hasErrors) {
      const box = h("input", { type: "checkbox", checked: model.errors, on: { change: () => { model.errors = box.checked; model.change("errors"); } } });
      bar.append(h("label", { class: "check" }, box, " error bars"));
    }
    bar.append(hint);
    return bar;
  }

  /** Shows the scores that are not in front, in the choice, the detail and the table. */
  private more(): HTMLElement | null {
    const { model } = this;
    if (!model.hasMore) return null;
    const button = h("button", { type: "button", class: "more", on: { click: () => model.showMore(!model.more) } });
    const draw = () => {
      button.setAttribute("aria-expanded", String(model.more));
      button.textContent = model.more ? "Fewer scores" : "More scores";
    };
    draw();
    model.listen((change) => {
      if (change === "more") draw();
    });
    return button;
  }
}

/** The question that a language model was asked, and its answer. */
function conversation(explanation: Explanation): HTMLElement | null {
  const { question, reply } = explanation;
  if (question == null || reply == null) return null;
  const line = (who: string, words: string) => [h("dt", {}, who), h("dd", { dir: "auto" }, words)];
  return h("dl", { class: "conversation" }, ...line("Question", question), ...line("Answer", reply));
}

function legend(model: Model): HTMLElement {
  const element = h("p", { class: "legend" });
  const draw = () => {
    const entry = (kind: string, text: string) => h("span", {}, h("span", { class: `swatch ${kind}` }), ` ${text}`);
    element.replaceChildren(...(model.score === "importance" ? [entry("neutral", "weighs more")]
      : [entry("down", `away from ${model.label}`), entry("up", `towards ${model.label}`)]), model.additive ? "" : entry("weight", "a thicker line: more important"),
      model.without ? h("span", { class: "faint" }, "grey: no effect") : "");
  };
  draw();
  model.listen((change) => {
    if (change === "score" || change === "target") draw();
  });
  return element;
}
