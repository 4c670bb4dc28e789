/** Taking explanations along: files, pictures, and Python that repeats one. */
import { freshId, h } from "../dom";
import type { Model } from "../model";
import { api } from "./api";

type Tell = (problem: unknown) => void;

/** The export menu of one explanation. */
export function exportMenu(key: string, model: Model, tell: Tell): HTMLElement {
  const short = key.slice(0, 8);
  const kind = () => (model.chart === "bars" || model.additive ? "bars" : "scatter");
  const figure = (ending: string) => download(`api/explanations/${key}/figure.${ending}?kind=${kind()}`, `explanation-${short}-${kind()}.${ending}`);
  return menu("Export", [
    ["Page (HTML)", "opens in any browser, offline", () => download(`api/report.html?keys=${key}`, `explanation-${short}.html`)],
    ["Data (JSON)", "Explanation.load reads it", () => download(`api/explanations/${key}?download=true`, `explanation-${short}.json`)],
    ["Picture (SVG)", "sharp at any size", () => figure("svg")],
    ["Picture (PNG)", "for slides and mails", () => figure("png")],
    ["Python", "a few lines that repeat it", async () => showSnippet(await api.snippet(key))],
  ], tell);
}

/** One page with several explanations. */
export function exportAll(keys: readonly string[], tell: Tell): HTMLElement {
  return h("button", { type: "button", on: { click: () => void attempt(() => download(`api/report.html?keys=${keys.join(",")}`, "comparison.html"), tell) } }, "Export all (HTML)");
}

type Entry = readonly [name: string, hint: string, act: () => Promise<void>];

function menu(title: string, entries: readonly Entry[], tell: Tell): HTMLElement {
  const summary = h("summary", {}, title);
  const element = h("details", { class: "menu" }, summary, h("ul", {}, ...entries.map(([name, hint, act]) =>
    h("li", {}, h("button", { type: "button", on: { click: () => choose(act) } }, name, h("small", {}, hint))))));
  const choose = (act: () => Promise<void>) => {
    element.open = false;
    summary.focus();
    void attempt(act, tell);
  };
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    element.open = false;
    summary.focus();
  });
  element.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !element.contains(event.relatedTarget as Node)) element.open = false;
  });
  element.addEventListener("toggle", () => {
    const outside = (event: Event) => {
      if (element.open && !element.contains(event.target as Node)) element.open = false;
      if (!element.open) document.removeEventListener("pointerdown", outside);
    };
    if (element.open) document.addEventListener("pointerdown", outside);
  });
  return element;
}

async function attempt(act: () => Promise<void>, tell: Tell): Promise<void> {
  try {
    await act();
  } catch (error) {
    tell(error);
  }
}

/** Saves a file. It is fetched first, so that a refusal can be told. */
async function download(address: string, name: string): Promise<void> {
  const content = URL.createObjectURL(await api.file(address));
  h("a", { href: content, download: name }).click();
  window.setTimeout(() => URL.revokeObjectURL(content), 60_000);
}

function showSnippet(python: string): void {
  const title = freshId();
  const code = h("pre", { tabindex: 0, "aria-label": "Python" }, python);
  const copy = h("button", { type: "button", class: "primary" }, "Copy");
  copy.addEventListener("click", async () => {
    getSelection()?.selectAllChildren(code); // where the page may not copy, Ctrl+C does
    await navigator.clipboard?.writeText(python);
    copy.textContent = navigator.clipboard ? "Copied" : "Selected: press Ctrl+C";
  });
  const dialog = h("dialog", { class: "snippet", "aria-labelledby": title },
    h("h2", { id: title }, "Python that repeats this explanation"), code,
    h("div", { class: "bar" }, copy, h("button", { type: "button", on: { click: () => dialog.close() } }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
