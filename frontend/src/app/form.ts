/** The question: a text, a model, and how to explain. */
import { freshId, h } from "../dom";
import type { MethodInfo, ModelInfo, Question } from "./api";

const GRANULARITIES = [["word", "words"], ["token", "tokens"], ["type", "distinct tokens"], ["phrase", "phrases"], ["sentence", "sentences"], ["passage", "passages"]] as const;
const AUTO = "auto";
const REMOVALS = [[AUTO, "as suits the model"], ["hide", "is hidden from the attention"], ["delete", "is deleted"], ["mask", "becomes the mask token"], ["unk", "becomes the unknown token"]] as const;

type Options = readonly (readonly [value: string, label: string])[];

export class AskForm {
  readonly element: HTMLFormElement;
  private readonly text = h("textarea", { rows: 4, spellcheck: "false", dir: "auto", placeholder: "Paste or write a text", "aria-keyshortcuts": "Control+Enter" });
  private readonly pair = h("textarea", { rows: 2, spellcheck: "false", dir: "auto" });
  private readonly model = h("select");
  private readonly method = select([["slalom", "slalom"]]);
  private readonly granularity = select(GRANULARITIES);
  private readonly target = h("select");
  private readonly removal = select(REMOVALS);
  private readonly budget = h("input", { type: "number", min: 1, step: 1, placeholder: "automatic" });
  private readonly seed = h("input", { type: "number", min: 0, step: 1, value: 0 });
  private readonly more: HTMLDetailsElement;
  private readonly hint = h("p", { class: "caption hint" });
  private readonly beside = h("button", { type: "button", hidden: true, title: "Keeps what is shown and puts the new explanation beside it" }, "Explain beside");
  private readonly state = h("p", { class: "caption", role: "status" });
  private models: readonly ModelInfo[] = [];
  private methods: readonly MethodInfo[] = [];

  constructor(ask: (beside: boolean) => void) {
    this.more = h("details", { class: "more-settings" }, h("summary", {}, "Second text and other settings"),
      h("div", { class: "settings" }, field("Second text, for models that read pairs", this.pair, "wide"), field("A removed unit", this.removal), field("Random seed", this.seed)));
    this.element = h("form", { class: "panel question", "aria-label": "Question" },
      field("Text", this.text, "text"),
      h("div", { class: "settings" }, field("Model", this.model), field("Method", this.method), field("Units", this.granularity),
        field("Class", this.target), field("Model calls", this.budget)),
      this.hint, this.more,
      h("div", { class: "bar" }, h("button", { class: "primary" }, "Explain"), this.beside, h("span", { class: "caption keys" }, "or Ctrl+Enter in the text"), this.state));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      ask(false);
    });
    this.beside.addEventListener("click", () => ask(true));
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
    this.model.addEventListener("change", () => this.chosen());
    this.method.addEventListener("change", () => this.chosen());
    this.chosen();
  }

  /** Whether an explanation can be put beside those on show. */
  offerBeside(offer: boolean): void {
    this.beside.hidden = !offer;
  }

  know(models: readonly ModelInfo[], methods: readonly MethodInfo[]): void {
    this.models = models;
    this.methods = methods;
    offer(this.model, models.map(({ name, state }) => [name, state === "ready" ? name : `${name} (${state})`]));
    if (methods.length > 0) offer(this.method, methods.map(({ name }) => [name, name]));
    this.chosen();
  }

  /** What there is to know about the chosen model and method. */
  private chosen(): void {
    const model = this.models.find(({ name }) => name === this.model.value);
    offer(this.target, [["", "automatic"], ...(model?.labels ?? []).map((label) => [label, label] as const)]);
    const method = this.methods.find(({ name }) => name === this.method.value);
    this.hint.textContent = method ? `${method.name}: ${method.description}.` : "";
    this.state.textContent = model ? said(model) : "";
    this.state.classList.toggle("wrong", model?.state === "failed");
  }

  fill(question: Question): void {
    this.text.value = question.text;
    this.pair.value = question.text_pair ?? "";
    choose(this.model, question.model);
    choose(this.method, question.method);
    this.chosen();
    choose(this.granularity, question.granularity);
    choose(this.target, question.target ?? "");
    choose(this.removal, question.removal);
    this.budget.value = question.budget === null ? "" : String(question.budget);
    this.seed.value = String(question.seed);
    this.more.open = question.text_pair !== null || question.removal !== AUTO || question.seed !== 0;
  }

  setText(text: string, model: string | null): void {
    this.text.value = text;
    this.pair.value = "";
    if (model !== null) choose(this.model, model);
    this.chosen();
  }

  /** The question as it stands; null where something is missing, which then has the focus. */
  read(): Question | null {
    if (!this.element.reportValidity()) return null;
    return { ...this.settings(), text: this.text.value, text_pair: this.pair.value || null };
  }

  focusText(): void {
    this.text.focus();
  }

  /** Everything but the texts. */
  settings(): Omit<Question, "text" | "text_pair"> {
    return {
      model: this.model.value,
      method: this.method.value,
      granularity: this.granularity.value,
      target: this.target.value || null,
      removal: this.removal.value,
      budget: this.budget.value === "" ? null : Number(this.budget.value),
      seed: Number(this.seed.value),
    };
  }
}

function said({ state, name, message, queued, running }: ModelInfo): string {
  if (state === "loading") return `${name} is still being loaded. You can ask already.`;
  if (state === "failed") return `${name} cannot be loaded: ${message ?? "see the server's log"}`;
  const busy = [running ? `${running} under way` : "", queued ? `${queued} waiting` : ""].filter(Boolean).join(", ");
  return busy ? `${name}: ${busy}` : "";
}

function field(name: string, control: HTMLElement, kind = ""): HTMLElement {
  const id = freshId();
  control.id = id;
  return h("div", { class: `field ${kind}` }, h("label", { for: id }, name), control);
}

export function select(options: Options): HTMLSelectElement {
  return h("select", {}, ...made(options));
}

const made = (options: Options): HTMLOptionElement[] => options.map(([value, label]) => h("option", { value }, label));

/** Other options, with the choice kept where it is still there. */
export function offer(element: HTMLSelectElement, options: Options): void {
  const chosen = element.value;
  const same = options.length === element.length && options.every(([value, label], place) => element.options[place]!.value === value && element.options[place]!.text === label);
  if (same) return;
  element.replaceChildren(...made(options));
  choose(element, chosen);
}

export function choose(element: HTMLSelectElement, value: string): void {
  if ([...element.options].some((option) => option.value === value)) element.value = value;
}
