/** The page: a list of texts where there are several, and the explanations of the chosen one side by side. */
import { Card } from "./card";
import { DataError, type Entry, type Explanation, type Index } from "./data";
import { h } from "./dom";
import { Links } from "./links";
import { Model } from "./model";
import { said } from "./numbers";
import { themeSwitch } from "./theme";

export class Report {
  readonly element: HTMLElement;
  private readonly stage = h("div", { class: "stage" });
  private readonly buttons: HTMLButtonElement[] = [];
  private readonly links = new Links();

  constructor(private readonly index: Index, private readonly load: (place: number) => Explanation) {
    const many = index.texts.length > 1;
    this.element = h("div", { class: many ? "report many" : "report" },
      h("header", { class: "top" }, h("h1", {}, index.title), themeSwitch()),
      h("div", { class: "body" }, many ? this.list() : null, h("main", {}, this.stage)));
    this.choose(0);
  }

  private list(): HTMLElement {
    const status = h("p", { class: "caption", role: "status" });
    const entries = this.index.texts.map((entry, place) => this.entry(entry, place));
    const search = h("input", { type: "search", "aria-label": "Filter the texts", placeholder: "Filter: words, label, method" });
    const haystacks = this.index.texts.map((entry) => [entry.text, entry.label, ...entry.names].join(" ").toLowerCase());
    const filter = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      entries.forEach((entry, place) => {
        entry.hidden = !wanted.every((word) => haystacks[place]!.includes(word));
        if (!entry.hidden) shown++;
      });
      status.textContent = `${shown} of ${entries.length} texts`;
    };
    search.addEventListener("input", filter);
    filter();
    return h("nav", { "aria-label": "Texts" }, search, status, h("ul", {}, ...entries));
  }

  private entry(entry: Entry, place: number): HTMLLIElement {
    const names = entry.items.length > 1 ? ` · ${entry.items.length} explanations` : "";
    const button = h("button", { type: "button", on: { click: () => this.choose(place) } },
      h("span", { class: "preview", dir: "auto" }, entry.text), h("span", { class: "caption" }, `${said(entry.label, entry.probability, entry.prediction)}${names}`));
    this.buttons.push(button);
    return h("li", {}, button);
  }

  private choose(place: number): void {
    this.buttons.forEach((button, other) => (other === place ? button.setAttribute("aria-current", "true") : button.removeAttribute("aria-current")));
    const cards: Card[] = [];
    const parts: HTMLElement[] = [];
    const { items } = this.index.texts[place]!;
    for (const item of items) {
      try {
        const card = new Card(new Model(this.load(item)), items.length === 1);
        cards.push(card);
        parts.push(card.element);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        parts.push(failure(error.message));
      }
    }
    this.stage.classList.toggle("side", parts.length > 1);
    this.stage.replaceChildren(...parts);
    this.links.set(cards);
  }
}

/** A message in place of what cannot be shown. */
export function failure(message: string): HTMLElement {
  return h("div", { class: "failure", role: "alert" }, h("h2", {}, "This cannot be shown"),
    h("p", {}, `${message}.`), h("p", {}, "The file may be damaged or edited. Write it again with slalom explain --html or slalom report --html."));
}
