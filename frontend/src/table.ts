/** Every number, in a table to sort and filter: in front the scores that are always shown, the rest on request. */
import type { Score } from "./data";
import { freshId, h } from "./dom";
import type { Model } from "./model";
import { signed, size } from "./numbers";
import { together } from "./together";

type Key = "place" | "text" | "count" | Score;
const FIRST = 12;
const MORE = 200;

export class UnitTable {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly head = h("tr");
  private readonly status = h("p", { class: "caption", role: "status" });
  private readonly more: HTMLButtonElement;
  private readonly rows = new Map<number, HTMLTableRowElement>();
  private key: Key;
  private descending = true;
  private wanted = "";
  private side: "all" | "up" | "down" = "all";
  private limit = FIRST;
  private lit: HTMLTableRowElement | null = null;

  constructor(private readonly model: Model, open: boolean) {
    this.key = model.score;
    const filter = freshId();
    const side = freshId();
    this.more = h("button", { type: "button", on: { click: () => this.draw(this.limit + MORE) } }, "Show more");
    this.element = h("details", { class: "table", open }, h("summary", {}, "All numbers"),
      h("div", { class: "bar" },
        h("label", { for: filter }, "Contains"),
        h("input", { type: "search", id: filter, on: { input: (event: InputEvent) => this.filter((event.target as HTMLInputElement).value) } }),
        h("label", { for: side }, "Shows"),
        h("select", { id: side, on: { change: (event: Event) => this.only((event.target as HTMLSelectElement).value) } },
          h("option", { value: "all" }, "all"), h("option", { value: "up" }, "what pushes up"), h("option", { value: "down" }, "what pulls down"))),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of all scores" },
        h("table", {}, h("caption", { class: "hidden" }, "Scores of every unit, with standard errors"), h("thead", {}, this.head), this.body)),
      this.status, this.more, together(model));
    model.listen((change) => {
      if (change === "active") this.light();
      else if (change === "counts") this.count();
      else if (change === "score") this.sort(model.score, true);
      else if (change === "target" || change === "more") this.draw();
    });
    this.body.addEventListener("pointerover", (event) => this.rowOf(event));
    this.body.addEventListener("focusin", (event) => this.rowOf(event));
    this.draw();
  }

  private rowOf(event: Event): void {
    const row = (event.target as Element).closest("tr");
    if (row) this.model.activate(Number(row.dataset["unit"]));
  }
  private filter(wanted: string): void {
    this.wanted = wanted.toLowerCase();
    this.draw(FIRST);
  }
  private only(side: string): void {
    this.side = side as typeof this.side;
    this.draw(FIRST);
  }
  private sort(key: Key, descending?: boolean): void {
    this.descending = descending ?? (this.key === key ? !this.descending : key !== "place" && key !== "text");
    this.key = key;
    this.draw();
  }

  private order(): number[] {
    const { model, key } = this;
    const effect = model.scores(model.firstScore);
    const units = model.explanation.units.map((_, unit) => unit).filter((unit) =>
      model.explanation.units[unit]!.toLowerCase().includes(this.wanted) &&
      (this.side === "all" || (this.side === "up" ? (effect[unit] ?? 0) > 0 : (effect[unit] ?? 0) < 0)));
    const down = this.descending ? -1 : 1;
    if (key === "place") return this.descending ? units.reverse() : units;
    if (key === "text") return units.sort((a, b) => down * model.explanation.units[a]!.localeCompare(model.explanation.units[b]!));
    const numbers = key === "count" ? model.counts : model.scores(key);
    const missing = (unit: number): number => Number(numbers[unit] == null); // these are last, whichever way it is sorted
    return units.sort((a, b) => missing(a) - missing(b) || down * ((numbers[a] ?? 0) - (numbers[b] ?? 0)) || a - b);
  }

  /** Whether places, counts and the standard errors of all scores are shown as well. */
  private get full(): boolean {
    return this.model.more || !this.model.hasMore;
  }

  private draw(limit = this.limit): void {
    this.limit = limit;
    const { model } = this;
    const header = (key: Key, title: string, hint: string, source: string | null = null) => h("th", { scope: "col", "aria-sort": key === this.key ? (this.descending ? "descending" : "ascending") : undefined },
      h("button", { type: "button", title: hint, "data-key": key, on: { click: () => { this.sort(key); this.head.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus(); } } }, h("span", {}, title), source === null ? null : h("small", {}, ` ${source}`)));
    this.head.replaceChildren(...(this.full ? [header("place", "#", "place in the text")] : []), header("text", model.piece, "by the alphabet"),
      ...(this.full && !model.fixed ? [header("count", "times", "how often it is kept in your edited text")] : []),
      ...model.shownNames.map((name) => header(name, model.title(name), model.meaning(name), model.source(name))));
    const order = this.order();
    const shown = order.slice(0, limit);
    this.rows.clear();
    this.body.replaceChildren(...shown.map((unit) => this.row(unit)));
    this.status.textContent = order.length === 0 ? "Nothing matches the filter." : `${shown.length} of ${model.explanation.units.length} shown.`;
    this.more.hidden = shown.length === order.length;
    this.light();
  }

  private row(unit: number): HTMLTableRowElement {
    const { model } = this;
    const text = model.explanation.units[unit]!;
    const step = (by: number, sign: string, name: string) => h("button", {
      type: "button", class: "step", "aria-label": `${name} ${text}`, on: { click: () => model.setCount([unit], model.counts[unit]! + by) },
    }, sign);
    const occurrences = model.explanation.occurrences[unit] ?? 1;
    const row = h("tr", { "data-unit": unit },
      this.full ? h("td", {}, String(unit + 1)) : null,
      h("th", { scope: "row", dir: "auto" }, text.trim() || "␣", occurrences > 1 ? h("small", {}, ` stands ${occurrences} times`) : null),
      model.fixed || !this.full ? null : h("td", { class: "count" }, step(-1, "−", "one less of"), h("span", {}, String(model.counts[unit])), step(1, "+", "one more of")),
      ...(model.effect(unit) ? model.shownNames.map((name) => {
        const error = this.full || name === model.firstScore ? model.error(name, unit) : null;
        return h("td", { "data-score": name }, signed(model.scores(name)[unit]), error === null ? null : h("small", {}, ` ± ${size(error)}`));
      }) : [h("td", { colspan: model.shownNames.length }, "no effect")]));
    row.classList.toggle("faint", !model.effect(unit));
    row.classList.toggle("removed", model.counts[unit] === 0);
    this.rows.set(unit, row);
    return row;
  }

  private light(): void {
    this.lit?.classList.remove("lit");
    this.lit = this.model.active === null ? null : (this.rows.get(this.model.active) ?? null);
    this.lit?.classList.add("lit");
  }

  private count(): void {
    for (const [unit, row] of this.rows) {
      const count = row.querySelector(".count span");
      if (count) count.textContent = String(this.model.counts[unit]);
      row.classList.toggle("removed", this.model.counts[unit] === 0);
    }
  }
}
