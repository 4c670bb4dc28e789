/** The page around its tabs: where to go, what is known about the server, and what went wrong. */
import { h } from "../dom";
import { themeSwitch } from "../theme";
import { api, sentence, type DataInfo, type FolderInfo, type MethodInfo, type ModelInfo } from "./api";
import { DataTab } from "./dataset";
import { ExplainTab } from "./explain";
import { FolderTab } from "./folder";
import { HistoryTab } from "./history";
import { MOST_JOBS, readState, START, writeState, type State, type Tab } from "./state";

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
  private readonly history: HistoryTab;
  private readonly data: DataTab;
  private readonly folder: FolderTab;
  private state: State = START;
  private methods: readonly MethodInfo[] = [];
  private dataset: DataInfo | null = null;
  private folderInfo: FolderInfo | null = null;
  private lookTimer = 0;
  private editTimer = 0;

  constructor() {
    this.explain = new ExplainTab({
      announce: (message) => (this.live.textContent = message),
      problem: (error) => this.problem(error),
      clear: () => this.problemLine.replaceChildren(),
      open: (jobs) => this.go(this.showing(jobs)),
      edited: (edits) => {
        window.clearTimeout(this.editTimer);
        this.editTimer = window.setTimeout(() => this.go({ ...this.state, edits }, true), SETTLED);
      },
      refresh: () => this.lookAgain(200),
    });
    this.history = new HistoryTab({
      open: (job) => this.open([job]),
      beside: (job) => this.open([...this.state.jobs.filter((other) => other !== job), job]),
      canBeside: () => this.state.jobs.length > 0 && this.state.jobs.length < MOST_JOBS,
      problem: (error) => this.problem(error),
    });
    this.data = new DataTab({
      go: (rows, replace) => this.go({ ...this.state, tab: "data", rows }, replace),
      explain: async (row, model) => {
        const { text } = await api.row(row);
        this.explain.form.setText(text, model);
        await this.explain.ask({ ...this.explain.form.settings(), text, text_pair: null }, []);
      },
      problem: (error) => this.problem(error),
    });
    this.folder = new FolderTab({
      go: (place) => this.go({ ...this.state, tab: "folder", place }),
      explain: async (text, text_pair) => {
        this.explain.form.setText(text, null);
        await this.explain.ask({ ...this.explain.form.settings(), text, text_pair }, []);
      },
      problem: (error) => this.problem(error),
    });
    this.main.append(this.explain.element, this.history.element, this.data.element, this.folder.element);
    this.element = h("div", { class: "app" },
      h("header", { class: "top" }, h("h1", {}, h("a", { href: "./", on: { click: (event: MouseEvent) => this.link(event, START) } }, "Slalom")), this.tabs, themeSwitch(storage())),
      this.problemLine, this.main, this.live);
    window.addEventListener("popstate", () => this.read());
    this.history.element.hidden = true;
    this.read();
    void this.look();
  }

  private showing(jobs: readonly number[]): State {
    return { ...this.state, tab: "explain", jobs, edits: this.explain.edits(jobs) };
  }

  /** Shows jobs, and takes whoever uses the keyboard there. */
  private open(jobs: readonly number[]): void {
    this.go(this.showing(jobs));
    this.main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
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
    if (state.tab === "history" && this.history.element.hidden) this.history.show();
    this.history.element.hidden = state.tab !== "history";
    this.data.element.hidden = state.tab !== "data";
    if (state.tab === "data") this.data.show(state.rows);
    else this.data.hide();
    this.folder.element.hidden = state.tab !== "folder";
    if (state.tab === "folder") this.folder.show(state.place);
    document.title = state.jobs.length > 0 ? `Explanation ${state.jobs.join(", ")} · Slalom` : "Slalom";
  }

  private drawTabs(): void {
    const tab = (name: Tab, title: string) => {
      const state = { ...this.state, tab: name };
      return h("a", { href: writeState(state), "aria-current": this.state.tab === name ? "page" : null, on: { click: (event: MouseEvent) => this.link(event, state) } }, title);
    };
    this.tabs.replaceChildren(tab("explain", "Explain"), tab("history", "History"), ...(this.dataset?.name ? [tab("data", "Data set")] : []), ...(this.folderInfo?.kind ? [tab("folder", this.folderInfo.kind === "audit" ? "Audit" : "Corpus")] : []));
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
      let data: DataInfo, folder: FolderInfo;
      [models, this.methods, data, folder] = await Promise.all([api.models(), this.methods.length > 0 ? this.methods : api.methods(), this.dataset ?? api.data(), this.folderInfo ?? api.folder()]);
      this.explain.know(models, this.methods);
      if (this.dataset === null) this.offerData(data);
      if (data.name) this.data.know(models, data);
      if (this.folderInfo === null) this.offerFolder(folder);
    } catch (error) {
      this.problem(error);
    }
    this.lookAgain(models.some(({ state }) => state === "loading") ? SOON : LATER);
  }

  private offerData(data: DataInfo): void {
    this.dataset = data;
    this.drawTabs();
    if (!data.name && this.state.tab === "data") this.problem(new Error("this server has no data set: start it with --data FILE"));
  }

  private offerFolder(folder: FolderInfo): void {
    this.folderInfo = folder;
    this.drawTabs();
    if (folder.kind) this.folder.know(folder);
    else if (this.state.tab === "folder") this.problem(new Error("this server shows no folder: start it with --folder FOLDER"));
  }

  private lookAgain(after: number): void {
    window.clearTimeout(this.lookTimer);
    this.lookTimer = window.setTimeout(() => void this.look(), after);
  }
}

/** What the browser remembers of this page; null where it may not. */
function storage(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
