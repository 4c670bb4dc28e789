/** "Ask the model": its own answer to the edited text, beside what the explanation predicts. */
import { h } from "../dom";
import type { Model } from "../model";
import { signed } from "../numbers";
import { number } from "../whatif";
import { api, sentence, type Job } from "./api";

export class AskModel {
  readonly element: HTMLElement;
  private readonly result = h("output", { class: "asked", "aria-live": "polite" });
  private answer: readonly number[] | null = null;
  private asked = 0;

  constructor(private readonly model: Model, private readonly job: Job) {
    const button = h("button", { type: "button", class: "ask", on: { click: () => this.ask() } }, "Ask the model");
    this.element = h("div", { class: "asking" }, button, this.result);
    this.hint();
    model.listen((change) => {
      if (change === "counts") this.hint();
      else if (change === "target") this.draw();
    });
  }

  /** An answer to another text than the one on show would mislead. */
  private hint(): void {
    this.asked++;
    this.answer = null;
    this.result.replaceChildren(h("span", { class: "caption" }, "Its own answer to the text as you have edited it."));
  }

  private async ask(): Promise<void> {
    const turn = ++this.asked;
    this.result.replaceChildren("The model is being asked …");
    try {
      const { answers } = await api.predict(this.job, this.model.counts);
      if (turn !== this.asked) return; // the text was edited meanwhile
      this.answer = answers[0]!.full;
      this.draw();
    } catch (error) {
      if (turn === this.asked) this.result.replaceChildren(h("span", { class: "wrong" }, sentence(error)));
    }
  }

  private draw(): void {
    if (this.answer === null) return;
    const own = this.model.read(this.answer);
    const predicted = this.model.predicted();
    const said = h("strong", {}, "The model answers ", number(own, "asked"), ".");
    if (predicted === null) return this.result.replaceChildren(said);
    const gap = predicted.output - own.output;
    this.result.replaceChildren(said, " The explanation predicts ", number(predicted, "surrogate"), ", a difference of ",
      h("data", { value: gap, "data-kind": "difference" }, signed(gap)), ".");
  }
}
