/** The first tab: a question, and the explanations that are on show, side by side where there are several. */
import { h } from "../dom";
import { Links } from "../links";
import { api, Problem, type Job, type MethodInfo, type ModelInfo, type Question } from "./api";
import { emptyState } from "./empty";
import { exportAll } from "./export";
import { AskForm } from "./form";
import { JobPanel } from "./job";
import { editsOf, MOST_JOBS, type Edits } from "./state";

/** What the tab needs of the page. */
export interface Desk {
  readonly announce: (message: string) => void;
  readonly problem: (error: unknown) => void;
  readonly clear: () => void; // an earlier problem
  readonly open: (jobs: readonly number[]) => void;
  readonly edited: (edits: readonly Edits[]) => void;
  readonly refresh: () => void; // what is known about models
}

const EMBEDDED = "embedded";

export class ExplainTab {
  readonly element: HTMLElement;
  readonly form: AskForm;
  private readonly stage = h("div", { class: "stage" });
  private readonly comparison = h("div", { class: "bar comparison", hidden: true });
  private readonly empty: HTMLElement;
  private readonly links = new Links();
  private panels: JobPanel[] = [];
  private models: readonly ModelInfo[] = [];
  private unfilled = false; // the form waits for the question of the job that was opened
  private asking = false;
  private nowKnown: () => void = () => {};
  private readonly known = new Promise<void>((resolve) => (this.nowKnown = resolve)); // which models there are

  constructor(private readonly desk: Desk) {
    this.form = new AskForm((beside) => void this.askForm(beside));
    this.empty = emptyState(() => void this.example());
    this.element = h("div", { class: "explain" }, this.form.element, this.empty, this.comparison, this.stage);
  }

  know(models: readonly ModelInfo[], methods: readonly MethodInfo[]): void {
    this.models = models;
    this.form.know(models, methods);
    this.nowKnown();
  }

  /** Shows these jobs. */
  show(jobs: readonly number[], edits: readonly Edits[]): void {
    const known = new Map(this.panels.map((panel) => [panel.id, panel]));
    this.unfilled = jobs.some((id) => !known.has(id)) && !this.asking;
    this.panels = jobs.map((id, place) => known.get(id) ?? this.panel(id, edits[place]));
    for (const [id, panel] of known) if (!jobs.includes(id)) panel.close();
    const elements = this.panels.map(({ element }) => element);
    if (elements.length > 1 && this.stage.childElementCount === 1) this.closeTables(); // numbers side by side take much room
    if (elements.some((element, place) => this.stage.children[place] !== element) || elements.length !== this.stage.childElementCount) this.stage.replaceChildren(...elements);
    this.changed();
  }

  private closeTables(): void {
    for (const table of this.stage.querySelectorAll<HTMLDetailsElement>("details.table")) table.open = false;
  }

  private panel(id: number, edits: Edits | undefined): JobPanel {
    return new JobPanel(id, {
      alone: () => this.panels.length < 2,
      model: (name) => this.models.find((model) => model.name === name),
      announce: this.desk.announce,
      problem: this.desk.problem,
      changed: () => this.changed(),
      edited: () => this.desk.edited(this.edits(this.ids())),
      heard: (job) => this.heard(job),
      repeat: ({ id: old, ...job }) => void this.ask(job, this.ids().filter((other) => other !== old)),
      remove: () => this.desk.open(this.ids().filter((other) => other !== id)),
    }, edits);
  }

  /** How the texts of jobs are edited. */
  edits(jobs: readonly number[]): Edits[] {
    return jobs.map((job) => editsOf(this.panels.find(({ id }) => id === job)?.card?.model.counts ?? []));
  }

  private ids(): number[] {
    return this.panels.map(({ id }) => id);
  }

  private heard(job: Job): void {
    if (this.unfilled && job.id === this.panels.at(-1)?.id) {
      this.unfilled = false;
      this.form.fill(job);
    }
    if (job.state !== "running") this.desk.refresh();
  }

  private changed(): void {
    const count = this.panels.length;
    this.empty.hidden = count > 0;
    this.form.offerBeside(count > 0 && count < MOST_JOBS);
    this.element.classList.toggle("showing", count > 0);
    this.stage.classList.toggle("side", count > 1);
    this.links.set(this.panels.flatMap(({ card }) => card ?? []));
    const keys = this.panels.flatMap(({ job }) => job?.key ?? []);
    this.comparison.hidden = count < 2;
    this.comparison.replaceChildren(
      h("p", { class: "caption" }, `${count} explanations side by side. What you point at lights up in all of them.`),
      ...(keys.length === count && count > 1 ? [exportAll(keys, this.desk.problem)] : []));
  }

  private async askForm(beside: boolean): Promise<void> {
    await this.known;
    const question = this.form.read();
    if (question && question.text.trim() === "") {
      this.desk.problem(new Problem("there is no text to explain: paste or write one", 0));
      this.form.focusText();
    } else if (question) await this.ask(question, beside ? this.ids() : []);
  }

  private async example(): Promise<void> {
    try {
      await this.known;
      const embedded = this.models.find(({ name, state }) => name === EMBEDDED && state !== "failed");
      this.form.setText(await api.example(), embedded?.name ?? null);
      await this.askForm(false);
    } catch (error) {
      this.desk.problem(error);
    }
  }

  /** Asks, and shows the answer beside what these jobs show. */
  async ask(question: Question, others: readonly number[]): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    this.desk.clear();
    const { model, text, text_pair, method, granularity, target, removal, budget, seed } = question;
    try {
      const job = await api.ask({ model, text, text_pair, method, granularity, target, removal, budget, seed });
      this.desk.open([...others, job.id]);
      this.reveal();
    } catch (error) {
      this.desk.problem(error);
    } finally {
      this.asking = false;
    }
  }

  /** On a small screen, what was asked for begins below the edge. */
  private reveal(): void {
    if (this.stage.getBoundingClientRect().top > window.innerHeight * 0.6) this.stage.lastElementChild?.scrollIntoView({ block: "start" });
  }
}
