/** The text with coloured words. Hue and strength show the chosen score, the line below a word its importance; a word without effect is grey. */
import { freshId, h } from "./dom";
import type { Model } from "./model";
import { ranks, strengths } from "./numbers";

export class Words {
  readonly element: HTMLElement;
  private readonly places: HTMLElement[] = [];
  private readonly units: (readonly number[])[] = [];
  private readonly placesOf = new Map<number, number[]>();
  private lit: HTMLElement[] = [];
  private current = 0;

  constructor(private readonly model: Model, detailId: string) {
    const hint = freshId();
    this.element = h("div", { class: "words", role: "group", "aria-label": "The text", "aria-describedby": hint });
    this.element.append(h("p", { class: "hidden", id: hint },
      "Arrow keys move from word to word." + (model.fixed ? "" : " Enter removes a word or brings it back, plus repeats it, minus takes one away.")));
    for (const part of model.explanation.parts) {
      const line = h("p");
      for (const [text, units] of part) line.append(units.length === 0 ? text : this.word(text, units, detailId));
      line.dir = "auto"; // last: browsers look through the whole line again for every piece that is added
      this.element.append(line);
    }
    if (this.places[0]) this.places[0].tabIndex = 0;
    this.listen();
    this.colour();
    if (model.edited) this.count();
    model.listen((change) => {
      if (change === "active") this.light();
      else if (change === "counts") this.count();
      else if (change === "score" || change === "target") this.colour();
    });
  }

  private word(text: string, units: readonly number[], detailId: string): HTMLElement {
    const place = this.places.length;
    const element = h("span", { class: "word", role: "button", tabindex: -1, "data-place": place, "aria-describedby": detailId });
    element.textContent = text;
    this.places.push(element);
    this.units.push(units);
    for (const unit of units) this.placesOf.set(unit, [...(this.placesOf.get(unit) ?? []), place]);
    return element;
  }

  private listen(): void {
    const at = (event: Event): number | null => {
      const word = (event.target as Element).closest<HTMLElement>(".word");
      return word ? Number(word.dataset["place"]) : null;
    };
    const { element, model } = this;
    element.addEventListener("pointerover", (event) => model.activate(this.unit(at(event)) ?? model.active));
    element.addEventListener("focusin", (event) => {
      const place = at(event);
      if (place === null) return;
      this.rove(place);
      model.activate(this.unit(place));
    });
    element.addEventListener("mousedown", (event) => {
      if (event.shiftKey) event.preventDefault(); // it would select the text up to here
    });
    element.addEventListener("click", (event) => {
      const place = at(event);
      if (place === null) return;
      this.rove(place);
      this.places[place]!.focus();
      model.activate(this.unit(place));
      const step = event.shiftKey ? "repeat" : model.mode;
      if (step === "remove") this.toggle(place);
      else if (step === "repeat") this.step(place, 1);
    });
    element.addEventListener("keydown", (event) => {
      const place = at(event);
      if (place !== null && this.key(event, place)) event.preventDefault();
    });
  }

  private key(event: KeyboardEvent, place: number): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const forward = getComputedStyle(this.places[place]!.parentElement!).direction === "rtl" ? -1 : 1;
    const moves: Record<string, () => number> = {
      ArrowRight: () => place + forward,
      ArrowLeft: () => place - forward,
      ArrowDown: () => this.line(place, 1),
      ArrowUp: () => this.line(place, -1),
      Home: () => 0,
      End: () => this.places.length - 1,
    };
    const edits: Record<string, () => void> = {
      Enter: () => this.toggle(place),
      " ": () => this.toggle(place),
      Delete: () => this.model.setCount(this.units[place]!, 0),
      Backspace: () => this.model.setCount(this.units[place]!, 0),
      "+": () => this.step(place, 1),
      "=": () => this.step(place, 1),
      "-": () => this.step(place, -1),
    };
    const move = moves[event.key];
    if (move) this.places[Math.max(0, Math.min(this.places.length - 1, move()))]!.focus();
    else if (edits[event.key]) edits[event.key]!();
    else return false;
    return true;
  }

  /** The word nearest below or above. */
  private line(place: number, direction: number): number {
    const from = this.places[place]!.getBoundingClientRect();
    const middle = (from.left + from.right) / 2;
    let best = place;
    let row: number | null = null;
    let least = Infinity;
    for (let other = place + direction; other >= 0 && other < this.places.length; other += direction) {
      const box = this.places[other]!.getClientRects()[0];
      if (!box || Math.abs(box.top - from.top) < from.height / 2) continue;
      if (row !== null && Math.abs(box.top - row) > box.height / 2) break;
      row = box.top;
      const distance = Math.abs((box.left + box.right) / 2 - middle);
      if (distance < least) [best, least] = [other, distance];
    }
    return best;
  }

  private toggle(place: number): void {
    this.model.setCount(this.units[place]!, this.countOf(place) === 0 ? 1 : 0);
  }
  private step(place: number, by: number): void {
    this.model.setCount(this.units[place]!, this.countOf(place) + by);
  }
  private countOf(place: number): number {
    return this.model.counts[this.units[place]![0]!]!;
  }
  private unit(place: number | null): number | null {
    return place === null ? null : this.units[place]![0]!;
  }
  private rove(place: number): void {
    this.places[this.current]!.tabIndex = -1;
    this.current = place;
    this.places[place]!.tabIndex = 0;
  }

  private light(): void {
    for (const word of this.lit) word.classList.remove("lit");
    const { active } = this.model;
    this.lit = active === null ? [] : (this.placesOf.get(active) ?? []).map((place) => this.places[place]!);
    for (const word of this.lit) word.classList.add("lit");
  }

  /** Scrolls the lit word into the text's own window, never the page. */
  reveal(): void {
    const word = this.lit[0];
    if (!word || this.element.scrollHeight <= this.element.clientHeight) return;
    const box = word.getBoundingClientRect();
    const frame = this.element.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom) this.element.scrollTop += box.top - frame.top - frame.height / 2;
  }

  private colour(): void {
    const { model } = this;
    const scores = model.scores();
    const neutral = model.score === "importance";
    const strength = neutral ? ranks(scores) : strengths(scores);
    const weight = model.additive ? null : ranks(model.scores("importance"));
    this.places.forEach((word, place) => {
      const unit = this.units[place]![0]!;
      const effect = model.effect(unit);
      const amount = effect ? strength[unit]! : 0;
      word.classList.toggle("faint", !effect);
      word.classList.toggle("up", !neutral && amount > 0);
      word.classList.toggle("down", !neutral && amount < 0);
      word.classList.toggle("neutral", neutral && effect);
      word.style.setProperty("--strength", (0.62 * Math.abs(amount) ** 0.7).toFixed(3));
      // The line is dashed below what pulls down, so that hue is never the only sign.
      const line = !effect ? 0 : weight ? 4 * weight[unit]! ** 1.5 : amount < -0.1 ? 1.5 : 0;
      word.style.setProperty("--weight", `${line.toFixed(1)}px`);
    });
  }

  private count(): void {
    this.places.forEach((word, place) => {
      const count = this.countOf(place);
      word.classList.toggle("removed", count === 0);
      if (count > 1) word.dataset["count"] = `×${count}`;
      else delete word.dataset["count"];
      if (count === 1) word.removeAttribute("aria-label");
      else word.setAttribute("aria-label", `${word.textContent}, ${count === 0 ? "removed" : `${count} times`}`);
    });
  }
}
