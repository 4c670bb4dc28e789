/** The page around its tabs: where to go, what is known about the server, and what went wrong. */
import { h } from "../dom";
import { themeSwitch } from "../theme";
import { api, sentence, type MethodInfo, type ModelInfo } from "./api";
import { ExplainTab } from "./explain";
import { readState, START, writeState, type State, type Tab } from "./state";

const SOON = 1500; // milliseconds until models that are being loaded are looked at again
const LATER = 20_000;
const SETTLED = 400; // milliseconds without another edit, after which the address says it

export class Page {
  readonly element: HTMLElement;
  private readonly live = h("p", { class: "hidden", role: "status" });
  private readonly problemLine = h("div", { class: "problem", role: "alert" });
  private readonly main = h("main", { tabindex: -1 });
  private readonly tabs = h("nav", { class: "tabs", "aria-label": "Parts of the page" });
  private readonly explain: ExplainTab;
  private state: State = START;
  private methods: readonly MethodInfo[] = [];
  private lookTimer = 0;
  private editTimer = 0;

  constructor() {
    this.explain = new ExplainTab({
      announce: (message) => (this.live.textContent = message),
      problem: (error) => this.problem(error),
      clear: () => this.problemLine.replaceChildren(),
      open: (jobs) => this.go({ ...this.state, tab: "explain", jobs, edits: [] }),
      edited: (edits) => {
        window.clearTimeout(this.editTimer);
        this.editTimer = window.setTimeout(() => this.go({ ...this.state, edits }, true), SETTLED);
      },
      refresh: () => this.lookAgain(200),
    });
    this.main.append(this.explain.element);
    this.element = h("div", { class: "app" },
      h("header", { class: "top" }, h("h1", {}, h("a", { href: "./", on: { click: (event: MouseEvent) => this.link(event, START) } }, "Slalom")), this.tabs, themeSwitch(localStorage)),
      this.problemLine, this.main, this.live);
    window.addEventListener("popstate", () => this.read());
    this.read();
    void this.look();
  }

  /** Goes to another state of the page; a replaced one leaves nothing to go back to. */
  private go(state: State, replace = false): void {
    window.clearTimeout(this.editTimer);
    this.state = state;
    const address = writeState(state);
    history[replace ? "replaceState" : "pushState"](null, "", address === "?" ? "./" : address);
    this.show();
  }

  private read(): void {
    window.clearTimeout(this.editTimer);
    this.state = readState(location.search);
    this.show();
  }

  private link(event: MouseEvent, state: State): void {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return; // another window
    event.preventDefault();
    this.go(state);
  }

  private show(): void {
    const { state } = this;
    this.drawTabs();
    this.explain.element.hidden = state.tab !== "explain";
    this.explain.show(state.jobs, state.edits);
    document.title = state.jobs.length > 0 ? `Explanation ${state.jobs.join(", ")} · Slalom` : "Slalom";
  }

  private drawTabs(): void {
    const tab = (name: Tab, title: string) => {
      const state = { ...this.state, tab: name };
      return h("a", { href: writeState(state), "aria-current": this.state.tab === name ? "page" : null, on: { click: (event: MouseEvent) => this.link(event, state) } }, title);
    };
    this.tabs.replaceChildren(tab("explain", "Explain"));
  }

  private problem(error: unknown): void {
    const close = h("button", { type: "button", "aria-label": "Close this message", on: { click: () => this.problemLine.replaceChildren() } }, "×");
    this.problemLine.replaceChildren(h("p", {}, sentence(error)), close);
    this.problemLine.scrollIntoView({ block: "nearest" });
  }

  /** Looks at the models; again soon while one of them is being loaded. */
  private async look(): Promise<void> {
    let models: readonly ModelInfo[] = [];
    try {
      models = await api.models();
      if (this.methods.length === 0) this.methods = await api.methods();
      this.explain.know(models, this.methods);
    } catch (error) {
      this.problem(error);
    }
    this.lookAgain(models.some(({ state }) => state === "loading") ? SOON : LATER);
  }

  private lookAgain(after: number): void {
    window.clearTimeout(this.lookTimer);
    this.lookTimer = window.setTimeout(() => void this.look(), after);
  }
}
