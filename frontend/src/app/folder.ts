/** The folder of a corpus or of an audit: what is stored in it; no model is asked. */
import { Card } from "../card";
import { h } from "../dom";
import { Model } from "../model";
import { signed } from "../numbers";
import { api, sentence, type FolderInfo, type ListedText } from "./api";
import { select } from "./form";
import { FIRST_PLACE, ORDERS, type Order, type Place } from "./state";
import { storedExplanation, type StoredText } from "./stored";

const PAGE = 50;
const ORDER_NAMES: Readonly<Record<Order, string>> = { row: "as in the table", fidelity: "worst explained first", failed: "failed ones first" };
const HEADS = ["#", "text", "prediction", "output", "fidelity", "status"];
const FILE_NAMES: Readonly<Record<string, string>> = {
  "report.html": "The report", "explanations.html": "Some texts explained", "report.md": "The report as Markdown", "model-card.md": "A section for the model card", "audit.json": "All numbers (JSON)",
};
const NUMBER_NAMES: Readonly<Record<string, string>> = {
  flip_rate: "largest share of texts that one word flips", findings: "words found that should not matter", accuracy: "accuracy on the sample",
  attack_rate: "share of texts that up to four found words turn", fidelity: "lowest R² of the explanations",
};

/** What the tab needs of the page. */
export interface FolderDesk {
  readonly go: (place: Place) => void;
  readonly explain: (text: string, pair: string | null) => Promise<void>;
  readonly problem: (error: unknown) => void;
}

export class FolderTab {
  readonly element = h("div", { class: "folder" });
  private readonly about = h("p", { class: "caption" });
  private readonly order = select(ORDERS.map((order) => [order, ORDER_NAMES[order]] as const));
  private readonly body = h("tbody");
  private readonly pages = h("div", { class: "bar pages" });
  private readonly list: HTMLElement;
  private readonly stage = h("section", { class: "job", "aria-label": "Stored explanation", tabindex: -1 });
  private info: FolderInfo | null = null;
  private place: Place = FIRST_PLACE;
  private visible = false;
  private listed = ""; // what the table shows
  private shown: number | null = null;

  constructor(private readonly desk: FolderDesk) {
    this.order.setAttribute("aria-label", "Order of the texts");
    this.order.addEventListener("change", () => desk.go({ ...FIRST_PLACE, order: this.order.value as Order }));
    this.list = h("section", { class: "panel dataset", "aria-label": "Texts of the corpus" },
      h("div", { class: "bar" }, this.about, this.order),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of the texts" },
        h("table", {}, h("caption", { class: "hidden" }, "Texts of the corpus; choose one to see its explanation"),
          h("thead", {}, h("tr", {}, ...HEADS.map((title) => h("th", { scope: "col" }, h("span", { class: "head" }, title))))), this.body)),
      this.pages);
    this.body.addEventListener("click", (event) => {
      const row = (event.target as Element).closest("tr");
      if (row?.dataset["row"] && getSelection()?.isCollapsed !== false) desk.go({ ...this.place, text: Number(row.dataset["row"]) });
    });
  }

  know(info: FolderInfo): void {
    this.info = info;
    if (info.kind === "audit") this.element.replaceChildren(audit(info));
    else this.element.replaceChildren(this.stage, this.list);
    if (this.visible) this.show(this.place);
  }

  show(place: Place): void {
    this.visible = true;
    this.place = place;
    if (this.info?.kind !== "corpus") return;
    this.order.value = place.order;
    this.about.textContent = `${this.info.name ?? ""}: ${whole(this.info.texts)} texts, explained by ${this.info.model ?? ""}. Choose one to see what is stored of it.`;
    void this.attempt(() => this.fill());
    void this.attempt(() => this.open());
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.desk.problem(error);
    }
  }

  private async fill(): Promise<void> {
    const { order, start } = this.place;
    const wanted = `${order} ${start}`;
    if (wanted === this.listed) return;
    this.listed = wanted;
    this.list.setAttribute("aria-busy", "true");
    try {
      const { texts, total } = await api.listed(order, start, PAGE);
      if (wanted !== this.listed) return;
      this.body.replaceChildren(...texts.map(line));
      const button = (title: string, to: number) => h("button", { type: "button", on: { click: () => this.desk.go({ order, start: to, text: null }) } }, title);
      this.pages.replaceChildren(
        ...(start > 0 ? [button("Previous page", Math.max(0, start - PAGE))] : []),
        h("span", { class: "caption" }, total === 0 ? "There are no texts." : `${whole(start + 1)} to ${whole(start + texts.length)} of ${whole(total)}`),
        ...(start + PAGE < total ? [button("Next page", start + PAGE)] : []));
    } catch (error) {
      this.listed = "";
      throw error;
    } finally {
      if (wanted === this.listed || this.listed === "") this.list.removeAttribute("aria-busy");
    }
  }

  private async open(): Promise<void> {
    const { text } = this.place;
    if (text === this.shown) return;
    this.shown = text;
    this.stage.replaceChildren();
    if (text === null) return;
    const stored = await api.stored(text);
    if (text !== this.shown) return;
    this.stage.replaceChildren(this.heading(stored), this.explained(stored));
    this.stage.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  private heading(stored: StoredText): HTMLElement {
    const named = stored.id === null || stored.id === String(stored.number) ? "" : ` (${stored.id})`;
    const predicted = stored.predicted === null ? "" : ` The model predicts ${stored.predicted}.`;
    const again = () => void this.attempt(() => this.desk.explain(stored.text ?? "", stored.text_pair));
    return h("div", { class: "bar comparison" },
      h("p", {}, h("strong", {}, `Text ${whole(stored.number)}${named}.`), `${predicted} ${whole(stored.calls)} model calls, seed ${stored.seed}.`),
      h("span", { class: "tools" },
        stored.text ? h("button", { type: "button", title: "with a model of this server, to ask what if", on: { click: again } }, "Explain anew") : null,
        h("button", { type: "button", on: { click: () => this.desk.go({ ...this.place, text: null }) } }, "Close")));
  }

  private explained(stored: StoredText): HTMLElement {
    const explanation = storedExplanation(stored, this.info?.model ?? "");
    if (explanation) return new Card(new Model(explanation), true).element;
    return h("div", { class: "failure", role: "alert" }, h("h2", {}, "This text could not be explained"), h("p", {}, sentence(stored.problem ?? "")));
  }
}

const whole = (number: number): string => number.toLocaleString("en");

function line(text: ListedText): HTMLTableRowElement {
  const cell = (name: string, said: string | null) => h("td", { dir: "auto", "data-name": name, class: said === null ? "none" : "" }, said ?? "–");
  const failed = text.problem !== null;
  return h("tr", { "data-row": text.number },
    cell("text", whole(text.number)), h("th", { scope: "row" }, h("button", { type: "button", class: "text", dir: "auto" }, text.text || "(empty)")),
    cell("prediction", text.predicted), cell("output", text.prediction === null ? null : [signed(text.prediction), text.target].filter(Boolean).join(" for ")),
    cell("fidelity", text.fidelity === null ? null : text.fidelity.toFixed(2).replace("-", "−")),
    h("td", { class: failed ? "no" : "", title: text.problem }, text.status));
}

function audit({ name, model, numbers, files }: FolderInfo): HTMLElement {
  return h("section", { class: "panel", "aria-label": "Audit" },
    h("h2", {}, `${name ?? ""}: the audit of ${model ?? ""}`),
    h("ul", {}, ...files.map((file) => h("li", {}, h("a", { href: `folder/${file}`, target: "_blank", rel: "noopener" }, FILE_NAMES[file] ?? file)))),
    h("table", {}, h("caption", { class: "hidden" }, "Numbers of the audit"), h("tbody", {}, ...Object.entries(numbers).map(([key, number]) =>
      h("tr", {}, h("th", { scope: "row" }, NUMBER_NAMES[key] ?? key), h("td", {}, number === null ? "–" : String(Number(number.toPrecision(3)))))))));
}
