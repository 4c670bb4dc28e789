/** The button that chooses light or dark. */
import { h } from "./dom";

type Theme = "auto" | "dark" | "light";
const ORDER: readonly Theme[] = ["auto", "dark", "light"];
const NAME = "slalom-theme";

/** A button that goes through the themes; a store, where there is one, remembers the choice. */
export function themeSwitch(store: Storage | null = null): HTMLElement {
  const button = h("button", { type: "button", class: "theme" });
  let theme = ORDER.find((name) => name === store?.getItem(NAME)) ?? "auto";
  const show = () => {
    button.textContent = `Theme: ${theme}`;
    document.documentElement.dataset["theme"] = theme;
  };
  button.addEventListener("click", () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length]!;
    store?.setItem(NAME, theme);
    show();
  });
  show();
  return button;
}
