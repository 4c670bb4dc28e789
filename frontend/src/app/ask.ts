/** "Ask the model": its own output for the edited text, beside what the explanation predicts. */
import { h } from "../dom";
import { removalOf, type Model } from "../model";
import { signed } from "../numbers";
import { number } from "../whatif";
import { api, sentence, type Job } from "./api";

/** An output of the model, and how the edited text came to it. */
interface Answer {
  readonly full: readonly number[];
  readonly how: string;
}

export class AskModel {
  readonly element: HTMLElement;
  private readonly result = h("output", { class: "asked", "aria-live": "polite" });
  private readonly fresh: HTMLButtonElement;
  private answer: Answer | null = null;
  private asked = 0;

  constructor(private readonly model: Model, private readonly job: Job) {
    const button = h("button", { type: "button", class: "ask", on: { click: () => this.ask(false) } }, "Ask the model");
    this.fresh = h("button", { type: "button", class: "fresh", hidden: true, on: { click: () => this.ask(true) } }, "Ask it as a new text");
    this.element = h("div", { class: "asking" }, button, this.fresh, this.result);
    this.hint();
    model.listen((change) => {
      if (change === "counts") this.hint();
      else if (change === "target") this.draw();
    });
  }

  /** An output for another text than the one on show would mislead. */
  private hint(): void {
    this.asked++;
    this.answer = null;
    this.result.replaceChildren(h("span", { class: "caption" }, `Its own output for the edited text, ${this.removed(this.model.explanation.removal)}.`));
  }

  private removed(removal: string): string {
    return `with removed ${this.model.piece}s ${removalOf(removal)}`;
  }

  private async ask(asNewText: boolean): Promise<void> {
    const turn = ++this.asked;
    this.answer = null;
    this.result.replaceChildren("The model is reading the text …");
    try {
      const { removal } = this.model.explanation;
      const found = await api.predict(this.job, removal, this.model.counts, asNewText);
      if (turn !== this.asked) return; // the text was edited meanwhile
      if (found.removal !== undefined) this.fresh.hidden = false;
      this.answer = { full: found.answers[0]!.full, how: asNewText ? "for the edited text as a new text" : this.removed(found.removal ?? removal) };
      this.draw();
    } catch (error) {
      if (turn === this.asked) this.result.replaceChildren(h("span", { class: "wrong" }, sentence(error)));
    }
  }

  private draw(): void {
    if (this.answer === null) return;
    const { full, how } = this.answer;
    const own = this.model.read(full);
    const predicted = this.model.predicted();
    const said = h("strong", {}, "The model output is ", number(own, "asked"), ` ${how}.`);
    if (predicted === null) return this.result.replaceChildren(said);
    const gap = predicted.output - own.output;
    this.result.replaceChildren(said, " The explanation predicts ", number(predicted, "surrogate"), ", a difference of ",
      h("data", { value: gap, "data-kind": "difference" }, signed(gap)), ".");
  }
}
