/** What was asked, the newest first. */
import { h } from "../dom";
import { clipped, said } from "../numbers";
import { api, type Job } from "./api";

const PAGE = 30;
const STATES = { queued: "waits", running: "under way", done: "done", failed: "failed", cancelled: "cancelled" } as const;

/** What the tab needs of the page. */
export interface HistoryDesk {
  readonly open: (job: number) => void;
  readonly beside: (job: number) => void;
  readonly canBeside: () => boolean;
  readonly problem: (error: unknown) => void;
}

export class HistoryTab {
  readonly element: HTMLElement;
  private readonly list = h("ul", { class: "asked-list" });
  private readonly older: HTMLButtonElement;
  private readonly none = h("p", { class: "caption", hidden: true }, "Nothing was asked yet. Explain a text, and it is kept here.");
  private last: number | null = null;
  private turn = 0;

  constructor(private readonly desk: HistoryDesk) {
    this.older = h("button", { type: "button", hidden: true, on: { click: () => void this.load(this.last) } }, "Show older");
    this.element = h("section", { class: "panel history", "aria-labelledby": "slalom-history" },
      h("div", { class: "bar" }, h("h2", { id: "slalom-history" }, "What was asked"), h("button", { type: "button", on: { click: () => this.show() } }, "Refresh")),
      this.none, this.list, this.older);
  }

  /** Looks at the newest. */
  show(): void {
    void this.load(null);
  }

  private async load(before: number | null): Promise<void> {
    const turn = ++this.turn;
    try {
      const jobs = await api.jobs(PAGE, before);
      if (turn !== this.turn) return;
      const entries = jobs.map((job) => this.entry(job));
      if (before === null) this.list.replaceChildren(...entries);
      else this.list.append(...entries);
      if (before !== null) entries[0]?.querySelector("button")?.focus();
      this.last = jobs.at(-1)?.id ?? null;
      this.older.hidden = jobs.length < PAGE;
      this.none.hidden = this.list.childElementCount > 0;
    } catch (error) {
      this.desk.problem(error);
    }
  }

  private entry(job: Job): HTMLElement {
    const facts = [job.model, job.method, `by ${job.granularity}`, said(job.predicted, job.probability, job.prediction), when(job.created)].filter(Boolean).join(" · ");
    const text = job.text_pair === null ? job.text : `${job.text} | ${job.text_pair}`;
    return h("li", {},
      h("button", { type: "button", class: "open", on: { click: () => this.desk.open(job.id) } },
        h("span", { class: "preview", dir: "auto" }, clipped(text, 220)), h("span", { class: "caption" }, h("span", { class: `badge ${job.state}` }, STATES[job.state]), ` ${facts}`)),
      this.desk.canBeside() ? h("button", { type: "button", "aria-label": `Put explanation ${job.id} beside what is shown`, on: { click: () => this.desk.beside(job.id) } }, "Beside") : null);
  }
}

function when(seconds: number): string {
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" }).format(new Date(seconds * 1000));
}
