/** Explanations side by side: what lights up or changes in one does so in the others. */
import type { Card } from "./card";
import type { Explanation } from "./data";
import type { Model } from "./model";

export class Links {
  private cards: readonly Card[] = [];
  private readonly heard = new WeakSet<Card>();
  private linking = false;

  /** Links these cards, and no others; one that comes later is edited as those before it are. */
  set(cards: readonly Card[]): void {
    this.cards = cards;
    if (cards.length < 2) return;
    const edited = cards.find(({ model }) => model.edited);
    for (const card of cards) {
      if (edited && !this.heard.has(card) && !card.model.edited) copyCounts(edited.model, card.model);
      this.listen(card);
    }
  }

  private listen(card: Card): void {
    if (this.heard.has(card)) return;
    this.heard.add(card);
    card.model.listen((change) => {
      if (this.linking || !this.cards.includes(card) || (change !== "active" && change !== "counts")) return;
      this.linking = true;
      try {
        for (const { model } of this.cards) if (model !== card.model) change === "active" ? follow(card.model, model) : copyCounts(card.model, model);
      } finally {
        this.linking = false;
      }
    });
  }
}

function follow(from: Model, to: Model): void {
  to.activate(from.active === null ? null : counterpart(from.explanation, from.active, to.explanation));
}

/** The unit of another explanation that stands for a unit: at the same characters, or in another text the same word. */
export function counterpart(from: Explanation, unit: number, to: Explanation): number | null {
  let found: number;
  if (textOf(from) === textOf(to)) {
    const [part, start, end] = from.spans[unit]!;
    found = to.spans.findIndex(([p, s, e]) => p === part && s < end && e > start);
  } else {
    const wanted = plain(from.units[unit]!);
    found = wanted === "" ? -1 : to.units.findIndex((other) => plain(other) === wanted);
  }
  return found < 0 ? null : found;
}

const textOf = ({ parts }: Explanation): string => parts.map((part) => part.map(([text]) => text).join("")).join("\n\n");
const plain = (unit: string): string => unit.trim().toLowerCase().replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");

function copyCounts(from: Model, to: Model): void {
  if (textOf(from.explanation) !== textOf(to.explanation)) return;
  const counts = new Map(from.explanation.spans.map((span, unit) => [span.join(), from.counts[unit]!]));
  let changed = false;
  to.explanation.spans.forEach((span, unit) => {
    const count = counts.get(span.join());
    if (count !== undefined && to.counts[unit] !== count) {
      to.counts[unit] = count;
      changed = true;
    }
  });
  if (changed) to.change("counts");
}
