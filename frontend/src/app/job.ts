/** One job on the page: its progress, and its explanation as soon as there is one. */
import { Card } from "../card";
import { readExplanation } from "../data";
import { h } from "../dom";
import { Model } from "../model";
import { api, ended, sentence, type Job, type ModelInfo } from "./api";
import { AskModel } from "./ask";
import { exportMenu } from "./export";
import { follow } from "./follow";
import type { Edits } from "./state";

/** What a job's panel needs of the page around it. */
export interface Around {
  readonly alone: () => boolean;
  readonly model: (name: string) => ModelInfo | undefined;
  readonly announce: (message: string) => void;
  readonly problem: (error: unknown) => void;
  readonly changed: () => void; // another card, or another state
  readonly edited: () => void;
  readonly heard: (job: Job) => void;
  readonly repeat: (job: Job) => void;
  readonly remove: () => void;
}

const REACHED = 'button, input, select, summary, [tabindex="0"]';

export class JobPanel {
  readonly element: HTMLElement;
  job: Job | null = null;
  card: Card | null = null;
  private readonly status = h("div", { class: "status" });
  private readonly place = h("div", { class: "place" });
  private readonly stopFollowing: () => void;
  private shown = ""; // the state that was told last
  private round = 0; // that is on show; -1: the final result
  private asked = 0;
  private cancelling = false;

  constructor(readonly id: number, private readonly around: Around, private edits: Edits | undefined) {
    this.element = h("section", { class: "job", "aria-label": `Explanation ${id}` }, this.status, this.place);
    this.status.append(h("p", { class: "wait" }, "Looking for it …"));
    this.stopFollowing = follow(id, {
      heard: (job) => this.heard(job),
      failed: (message) => this.fail(message),
      lost: () => this.status.replaceChildren(h("p", { class: "wait" }, "The connection to the server is lost. Trying again …")),
    });
  }

  close(): void {
    this.asked++;
    this.stopFollowing();
  }

  private heard(job: Job): void {
    this.job = job;
    this.around.heard(job);
    this.drawStatus(job);
    const told = `${job.state} ${job.round}`;
    if (told !== this.shown) this.announce(job);
    this.shown = told;
    if (job.key !== null) void this.load(-1);
    else if (job.state === "running" && job.round > 0) void this.load(job.round);
    if (ended(job)) this.around.changed();
  }

  private announce(job: Job): void {
    const { id, state } = job;
    if (state === "done") this.around.announce(`Explanation ${id} is done.`);
    else if (state === "cancelled") this.around.announce(`Explanation ${id} was cancelled.`);
    else if (state === "queued") this.around.announce(waiting(job, this.around.model(job.model)));
    else if (state === "running") this.around.announce(job.round > 0 ? `Explanation ${id}: preliminary result ${job.round}.` : `Explanation ${id} has begun.`);
  }

  private drawStatus(job: Job): void {
    const { status } = this;
    this.element.classList.toggle("busy", !ended(job));
    if (job.state === "done") return status.replaceChildren();
    if (job.state === "failed") return this.fail(sentence(job.error ?? ""), job);
    if (job.state === "cancelled") {
      return status.replaceChildren(h("p", {}, this.card ? "Cancelled. What is below is preliminary." : "Cancelled before there was a result."), this.again(job));
    }
    const share = job.state === "running" && job.expected > 0 ? Math.min(job.calls, job.expected) / job.expected : null;
    const bar = status.querySelector("progress") ?? h("progress", { max: 1, "aria-label": "Progress" });
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    const line = status.querySelector(".wait") ?? h("p", { class: "wait" });
    line.textContent = this.cancelling ? "Being cancelled …" : job.state === "queued" ? waiting(job, this.around.model(job.model)) : working(job);
    if (!status.contains(bar)) {
      status.replaceChildren(line, h("div", { class: "bar" }, bar, h("button", { type: "button", on: { click: () => this.cancel() } }, "Cancel")));
    }
  }

  private again(job: Job): HTMLElement {
    return h("button", { type: "button", on: { click: () => this.around.repeat(job) } }, "Ask again");
  }

  private async cancel(): Promise<void> {
    this.cancelling = true;
    this.drawStatus(this.job!);
    try {
      await api.cancel(this.id);
    } catch (error) {
      this.cancelling = false;
      this.around.problem(error);
    }
  }

  private fail(message: string, job: Job | null = null): void {
    this.element.classList.remove("busy");
    this.status.replaceChildren(h("div", { class: "failure", role: "alert" }, h("h2", {}, job ? "This could not be explained" : "This cannot be shown"), h("p", {}, message),
      job && this.again(job)));
    this.around.changed();
  }

  /** Shows a preliminary result, or the final one (-1). */
  private async load(round: number): Promise<void> {
    if (this.round === round || this.round === -1) return;
    this.round = round;
    const turn = ++this.asked;
    try {
      const data = await api.view(this.id);
      if (turn === this.asked) this.show(new Model(readExplanation(data, 0)), this.job!);
    } catch (error) {
      if (turn === this.asked && this.job?.state !== "cancelled") this.fail(sentence(error));
    }
  }

  private show(model: Model, job: Job): void {
    const earlier = this.card;
    if (earlier) model.adopt(earlier.model);
    else for (const [unit, count] of this.edits ?? []) if (unit < model.counts.length) model.counts[unit] = count;
    const tools = h("div", { class: "tools" },
      job.key === null ? h("span", { class: "badge" }, "preliminary") : job.cached ? h("span", { class: "badge", title: "The same question was asked before." }, "known already") : null,
      job.key === null ? null : exportMenu(job.key, model, this.around.problem),
      h("button", { type: "button", class: "remove", "aria-label": `Take explanation ${this.id} away`, on: { click: () => this.around.remove() } }, "×"));
    this.card = new Card(model, this.around.alone(), { tools, whatif: new AskModel(model, job).element });
    model.listen((change) => {
      if (change === "counts") this.around.edited();
    });
    replaceKeepingPlace(this.place, this.card.element);
    if (earlier) model.activate(earlier.model.active);
    this.around.changed();
  }
}

/** Puts a newer card in the place of an older one; the focus and what is scrolled or open stay. */
function replaceKeepingPlace(place: HTMLElement, card: HTMLElement): void {
  const word = place.contains(document.activeElement) ? document.activeElement!.getAttribute("data-place") : null;
  const focused = [...place.querySelectorAll(REACHED)].indexOf(document.activeElement!);
  const scrolled = place.querySelector(".words")?.scrollTop ?? 0;
  const opened = (part: HTMLElement) => [...part.querySelectorAll<HTMLDetailsElement>("details.tested, details.table")];
  const open = opened(place).map((details) => details.open);
  place.replaceChildren(card);
  if (scrolled) card.querySelector(".words")!.scrollTop = scrolled;
  opened(card).forEach((details, at) => (details.open = open[at] ?? details.open));
  const again = word === null ? place.querySelectorAll<HTMLElement>(REACHED)[focused] : place.querySelector<HTMLElement>(`[data-place="${word}"]`);
  again?.focus({ preventScroll: true });
}

function waiting(job: Job, model: ModelInfo | undefined): string {
  const before = job.ahead ? ` ${job.ahead} ${job.ahead === 1 ? "question is" : "questions are"} before it.` : "";
  if (!model) return `This server does not have the model ${job.model} now.`;
  if (model.state === "loading") return `The model ${job.model} is still being loaded; then this begins.${before}`;
  return before ? `Waits for the model.${before}` : "Begins in a moment.";
}

function working(job: Job): string {
  const calls = job.expected > 0 ? `${job.calls.toLocaleString("en")} of about ${job.expected.toLocaleString("en")} questions to the model that are planned so far` : "The model is being asked";
  return job.round > 0 ? `${calls}. What is below is preliminary and gets better.` : `${calls}.`;
}
