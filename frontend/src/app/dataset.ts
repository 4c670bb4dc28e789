/** The data set: a page of rows at a time, sorted and filtered by the server. */
import { h } from "../dom";
import { percent } from "../numbers";
import { api, sentence, type DataInfo, type DataRow, type DataRows, type ModelInfo } from "./api";
import { choose, offer, select } from "./form";
import { FIRST_ROWS, rowsQuery, type Rows, type Sort } from "./state";

const PAGE = 50;
const SOON = 2000; // milliseconds between two looks at what is still being read
const TYPED = 350; // milliseconds without another letter, after which is searched
const ORDERS = [
  ["row", "as in the file"], ["wrong", "wrong ones first, the surest first"], ["fidelity", "worst explained first"], ["fidelity down", "best explained first"],
  ["probability", "least sure first"], ["probability down", "surest first"], ["label", "by label"], ["prediction", "by prediction"],
] as const;
const HEADS: readonly (readonly [Sort | null, string, string])[] = [
  ["row", "#", "place in the file"], [null, "text", ""], ["label", "label", "what the file says"], ["prediction", "prediction", "what the model says"],
  ["probability", "probability", "of the prediction"], ["wrong", "right?", "wrong ones first, the surest first"], ["fidelity", "fidelity", "how much of what deletions do the explanation predicts"],
];

/** What the tab needs of the page. */
export interface DataDesk {
  readonly go: (rows: Rows, replace: boolean) => void;
  readonly explain: (row: number, model: string) => Promise<void>;
  readonly problem: (error: unknown) => void;
}

export class DataTab {
  readonly element: HTMLElement;
  private readonly search = h("input", { type: "search", "aria-label": "Search", placeholder: "Words in the text, as: not \"so good\" awf*" });
  private readonly label = select([["", "any label"]]);
  private readonly model = h("select", { "aria-label": "Model that predicts" });
  private readonly order = select(ORDERS);
  private readonly wrong = h("input", { type: "checkbox" });
  private readonly about = h("p", { class: "caption" });
  private readonly fresh: HTMLButtonElement;
  private readonly count = h("p", { class: "caption", role: "status" });
  private readonly head = h("tr");
  private readonly body = h("tbody");
  private readonly pages = h("div", { class: "bar pages" });
  private rows: Rows = FIRST_ROWS;
  private info: DataInfo | null = null;
  private models: readonly ModelInfo[] = [];
  private readonly before = new Map<string | null, string | null>(); // the page before each page that was offered
  private asked = ""; // what the table shows
  private turn = 0;
  private looking = 0;
  private typing = 0;
  private visible = false;

  constructor(private readonly desk: DataDesk) {
    this.label.setAttribute("aria-label", "Label in the file");
    this.order.setAttribute("aria-label", "Order");
    this.fresh = h("button", { type: "button", hidden: true, on: { click: () => this.reload() } }, "Show what is new");
    this.element = h("section", { class: "panel dataset", "aria-label": "Data set" },
      h("div", { class: "bar" }, this.about, this.fresh, this.count),
      h("div", { class: "bar filters", role: "search" }, this.search, this.label, this.order, this.model, h("label", { class: "check" }, this.wrong, " only wrong ones")),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows of the data set" },
        h("table", {}, h("caption", { class: "hidden" }, "Rows of the data set; choose a text to explain it"), h("thead", {}, this.head), this.body)),
      this.pages);
    this.listen();
  }

  private listen(): void {
    this.search.addEventListener("input", () => {
      window.clearTimeout(this.typing);
      this.typing = window.setTimeout(() => this.change({ search: this.search.value.trim() }), TYPED);
    });
    this.label.addEventListener("change", () => this.change({ label: this.label.value || null }));
    this.model.addEventListener("change", () => this.change({ model: this.model.value }));
    this.wrong.addEventListener("change", () => this.change({ wrong: this.wrong.checked }));
    this.order.addEventListener("change", () => {
      const [sort, down] = this.order.value.split(" ");
      this.change({ sort: sort as Sort, descending: down !== undefined });
    });
    this.body.addEventListener("click", (event) => {
      const row = (event.target as Element).closest("tr");
      if (row?.dataset["row"] && getSelection()?.isCollapsed !== false) void this.explain(row);
    });
  }

  know(models: readonly ModelInfo[], info: DataInfo): void {
    this.models = models;
    this.info ??= info;
    offer(this.model, models.map(({ name }) => [name, name]));
    this.model.hidden = models.length < 2;
    if (this.visible) this.draw();
  }

  show(rows: Rows): void {
    this.visible = true;
    this.rows = rows;
    if (document.activeElement !== this.search) this.search.value = rows.search;
    this.wrong.checked = rows.wrong;
    this.draw();
    this.lookSoon();
  }

  hide(): void {
    this.visible = false;
    window.clearTimeout(this.looking);
  }

  /** The model whose predictions are shown. */
  private get chosen(): ModelInfo | undefined {
    return this.models.find(({ name }) => name === this.rows.model) ?? this.models[0];
  }

  private change(change: Partial<Rows>): void {
    this.desk.go({ ...this.rows, after: null, ...change }, "search" in change);
  }

  private draw(): void {
    if (!this.info || !this.chosen) return;
    offer(this.label, [["", "any label"], ...this.info.labels.map((label) => [label, label] as const)]);
    this.label.hidden = this.info.labels.length === 0;
    choose(this.label, this.rows.label ?? "");
    choose(this.model, this.chosen.name);
    this.order.value = `${this.rows.sort}${this.rows.descending ? " down" : ""}`;
    this.drawAbout();
    this.drawHead();
    const wanted = this.query().toString();
    if (wanted !== this.asked) void this.load();
  }

  /** Without a model that is ready there are no predictions to sort by. */
  private query(): URLSearchParams {
    const model = this.chosen?.state === "ready" ? this.chosen.name : null;
    return rowsQuery(model === null ? { ...this.rows, model, sort: "row", wrong: false } : { ...this.rows, model }, PAGE);
  }

  private drawAbout(): void {
    const { name, rows, imported, predicted, message } = this.info!;
    const model = this.chosen!;
    const done = predicted[model.name] ?? 0;
    const said = [`${name ?? ""}: ${whole(rows)} rows${imported ? "" : " so far, still being read"}.`];
    if (model.state !== "ready") said.push(model.state === "loading" ? `${model.name} is still being loaded.` : `${model.name} cannot be loaded.`);
    else if (done < rows || !imported) said.push(`${model.name} has answered ${whole(done)} of them.`);
    said.push("Choose a text to explain it.");
    if (message) said.push(sentence(message));
    this.about.textContent = said.join(" ");
  }

  private drawHead(): void {
    const { sort, descending } = this.rows;
    this.head.replaceChildren(...HEADS.map(([key, title, hint]) => key === null ? h("th", { scope: "col" }, h("span", { class: "head" }, title))
      : h("th", { scope: "col", "aria-sort": key === sort ? (descending ? "descending" : "ascending") : null },
        h("button", { type: "button", title: hint, on: { click: () => this.change({ sort: key, descending: key === sort && !descending }) } }, h("span", {}, title)))));
  }

  private reload(): void {
    this.asked = "";
    this.fresh.hidden = true;
    this.draw();
  }

  private async load(): Promise<void> {
    const turn = ++this.turn;
    const query = this.query();
    this.asked = query.toString();
    this.element.setAttribute("aria-busy", "true");
    try {
      const found = await api.rows(query);
      if (turn === this.turn) this.fill(found);
    } catch (error) {
      if (turn === this.turn) {
        this.asked = "";
        this.desk.problem(error);
      }
    } finally {
      if (turn === this.turn) this.element.removeAttribute("aria-busy");
    }
  }

  private fill({ rows, next, total }: DataRows): void {
    this.body.replaceChildren(...rows.map(line));
    this.fresh.hidden = true;
    const filtered = this.rows.search !== "" || this.rows.label !== null || this.rows.wrong;
    const { after } = this.rows;
    if (next !== null) this.before.set(next, after);
    const page = after === null ? "" : this.page(after);
    this.count.textContent = rows.length === 0 ? "No row matches." : !filtered ? page.trim() : `${total === null ? "Many" : whole(total)} ${total === 1 ? "row matches" : "rows match"}.${page}`;
    const button = (title: string, act: () => void) => h("button", { type: "button", on: { click: act } }, title);
    const go = (to: string | null) => {
      this.desk.go({ ...this.rows, after: to }, false);
      this.element.scrollIntoView({ block: "start" });
    };
    this.pages.replaceChildren(
      ...(after === null ? [] : [button("First page", () => go(null))]),
      ...(this.before.get(after) == null ? [] : [button("Previous page", () => go(this.before.get(after)!))]),
      ...(next === null ? [] : [button("Next page", () => go(next))]));
  }

  /** The number of a page, where the way to it is known. */
  private page(after: string): string {
    let number = 1;
    for (let place: string | null | undefined = after; place !== null; place = this.before.get(place)) {
      if (place === undefined) return "";
      number++;
    }
    return ` Page ${number}.`;
  }

  private async explain(row: HTMLTableRowElement): Promise<void> {
    const { chosen } = this;
    if (!chosen) return;
    row.classList.add("lit");
    try {
      await this.desk.explain(Number(row.dataset["row"]), chosen.name);
    } catch (error) {
      this.desk.problem(error);
    }
    row.classList.remove("lit");
  }

  /** Looks again while rows are read and answered. */
  private lookSoon(): void {
    window.clearTimeout(this.looking);
    const { info } = this;
    const done = info?.imported && this.models.every(({ name, state }) => state === "failed" || (info.predicted[name] ?? 0) >= info.rows);
    if (done || info?.message) return;
    this.looking = window.setTimeout(async () => {
      const before = JSON.stringify(this.info);
      try {
        this.info = await api.data();
        this.drawAbout();
        if (JSON.stringify(this.info) !== before) this.fresh.hidden = false;
        if (this.body.childElementCount === 0) this.reload();
      } catch {
        // The page says itself that the server is gone, where that matters.
      }
      if (this.visible) this.lookSoon();
    }, SOON);
  }
}

const whole = (number: number): string => number.toLocaleString("en");

function line(row: DataRow): HTMLTableRowElement {
  const verdict = row.wrong === null ? "" : row.wrong ? h("span", { class: "no" }, "✗ wrong") : h("span", { class: "yes" }, "✓ right");
  const text = row.empty ? h("span", { class: "caption" }, "(empty)") : h("button", { type: "button", class: "text", dir: "auto" }, row.text);
  return h("tr", { "data-row": row.empty ? null : row.row },
    cell("row", whole(row.row)), h("th", { scope: "row" }, text), cell("label", row.label),
    row.reason === null ? cell("prediction", row.prediction) : h("td", { class: "caption", title: row.reason }, "cannot be read"),
    cell("", row.probability === null ? null : percent(row.probability)), h("td", {}, verdict),
    cell("fidelity", row.fidelity === null ? null : row.fidelity.toFixed(2).replace("-", "−")));
}

/** On a small screen, the name stands before the number. */
const cell = (name: string, text: string | null): HTMLElement => h("td", { dir: "auto", "data-name": name || null, class: text === null ? "none" : "" }, text ?? "–");
