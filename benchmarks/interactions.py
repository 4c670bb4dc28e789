"""Are interactions found where they are planted, and only there?

    python benchmarks/interactions.py
    python benchmarks/interactions.py --texts 30 --budgets 500 1000 2000

Three kinds of models explain made-up reviews of 20 to 60 words, each with one negated adjective:

* two functions, in which "not" turns the adjective right behind it round: one adds up what words
  are worth, one averages it;
* the embedded model. Its own answers say where a negation does something: the joint effect of the
  two words is large and of one sign, in the whole text and, on average, in 20 texts that lack 1 to
  10 other tokens;
* SLALOMs with and without a sink, of random values and importances, in which there is nothing to
  find.

The table says in how many texts the pair was found with the right sign, and how many pairs were
found in all.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from slalom_xai import Explainer, Explanation
from slalom_xai.models import Prompt, prompt
from slalom_xai.queries import Queries
from slalom_xai.surrogates.formula import SlalomSurrogate

LARGE = 0.5  # log odds; a smaller joint effect of the embedded model is not looked for
CONTEXTS = 20  # shortened texts in which its joint effects are averaged
TURNED = 5.0  # by which "not" turns an adjective round in the functions

OPENINGS = (
    "I saw this film with my family last weekend.",
    "We rented it because the trailer looked nice.",
    "My brother gave me this movie for my birthday.",
    "The story follows two friends on a long trip to the sea.",
    "It was on television late in the evening.",
    "The director has made several other pictures before.",
    "This is the third film of the series.",
    "They shot most of it in a small town in the north.",
)
ENDINGS = (
    "The pictures of the city are bright and the cast tries hard.",
    "Some scenes in the middle take a long time.",
    "There is a car chase and a wedding near the end.",
    "My friends talked about it on the way home.",
    "I looked at my watch twice.",
    "We may watch it again with the children.",
    "The children in it are sweet.",
    "It runs for about two hours.",
)
NEGATED = (
    "It is {no} {word}.",
    "The film was {no} {word} at all.",
    "This movie is {no} {word}, and we stayed to the end.",
    "The acting was {no} {word} but the music was loud.",
)
NEGATIONS = ("not", "hardly", "barely", "nothing")
ADJECTIVES = (
    "good",
    "funny",
    "great",
    "interesting",
    "convincing",
    "enjoyable",
    "clever",
    "perfect",
    "excellent",
    "wonderful",
    "impressed",
    "believable",
    "best",
    "brilliant",
    "entertaining",
    "memorable",
    "superb",
    "fantastic",
    "touching",
    "charming",
    "powerful",
    "beautiful",
)


@dataclass(frozen=True)
class Review:
    """A text with a negated adjective.

    Attributes:
        text: all of it.
        negation: the word.
        adjective: behind it.
    """

    text: str
    negation: str
    adjective: str


def reviews(negations: Sequence[str], seed: int) -> Iterator[Review]:
    """Reviews without end."""
    rng = np.random.default_rng(seed)

    def some(sentences: Sequence[str]) -> list[str]:
        order = rng.permutation(len(sentences))[: rng.integers(1, 3)]
        return [sentences[index] for index in order]

    while True:
        negation, word = str(rng.choice(negations)), str(rng.choice(ADJECTIVES))
        middle = str(rng.choice(NEGATED)).format(no=negation, word=word)
        text = " ".join([*some(OPENINGS), middle, *some(ENDINGS)])
        if 20 <= len(text.split()) <= 60:
            yield Review(text, negation, word)


def negating(review: Review, averages: bool) -> Callable[[Sequence[str]], list[list[float]]]:
    """A function in which "not" turns the adjective behind it round.

    Args:
        review: names the adjective.
        averages: what words are worth is averaged; otherwise it is added up.
    """

    def answer(texts: Sequence[str]) -> list[list[float]]:
        odds = []
        for text in texts:
            words = re.findall(r"\w+", text.lower())
            total = 0.0
            for before, word in zip(["", *words], words, strict=False):
                worth = 0.6 * (zlib.crc32(word.encode()) % 1000 / 1000 - 0.5)
                if word == review.adjective:
                    worth = 3 - TURNED * (before == review.negation)
                total += worth
            odds.append([0.0, 8 * total / (len(words) + 1) if averages else total])
        return odds

    return answer


def planted_slalom(units: int, sink: bool, seed: int) -> tuple[str, Callable[..., object]]:
    """A text of made-up words, and a function that is a SLALOM of them."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    ends = (draw(1, 1), draw(1)) if sink else (None, None)
    known = SlalomSurrogate(2 * draw(1, units, 1), draw(1, units), *ends).normalised()

    def answer(texts: Sequence[str]) -> list[list[float]]:
        counts = torch.zeros(len(texts), units, dtype=torch.float64)
        for row, text in zip(counts, texts, strict=True):
            for word in text.split():
                row[int(word[1:])] += 1
        empty = counts.sum(dim=1) == 0
        counts[empty, 0] = 1
        odds = torch.where(empty, known.empty(), known.predict(counts)[:, 0])
        return [[0.0, float(one)] for one in odds]

    return " ".join(f"w{index}" for index in range(units)), answer


def place(question: Prompt, review: Review) -> tuple[int, int] | None:
    """The units of the negation and the adjective; None where they are not one unit each."""
    texts = [unit.text.lower() for unit in question.units]
    if review.negation not in texts:
        return None
    first = texts.index(review.negation)
    if review.adjective not in texts[first:]:
        return None
    return first, texts.index(review.adjective, first)


def joint_effects(
    explainer: Explainer, question: Prompt, pair: tuple[int, int], seed: int
) -> np.ndarray:
    """Joint effects of two units in the whole text and in texts that lack 1 to 10 others."""
    rng, units = np.random.default_rng(seed), len(question.units)
    others = [unit for unit in range(units) if unit not in pair]
    rows = np.ones((1 + CONTEXTS, 4, units), dtype=bool)
    for context in rows[1:]:
        context[:, rng.permutation(others)[: rng.integers(1, 11)]] = False
    for number, left_out in enumerate(([], [pair[0]], [pair[1]], list(pair))):
        rows[:, number, left_out] = False
    queries = Queries(explainer.batches, question, budget=rows.size)
    answers = queries.ask(rows.reshape(-1, units))[:, 0].cpu().numpy().reshape(-1, 4)
    return np.asarray(answers @ [1, -1, -1, 1])


def in_the_embedded_model(count: int, seed: int) -> list[Review]:
    """Reviews in which the embedded model itself turns a good word down."""
    explainer, found = Explainer(), []
    for number, review in enumerate(reviews(NEGATIONS, seed)):
        question = prompt(explainer.model.read(review.text), "token")
        pair = place(question, review)
        if pair is None:
            continue
        effects = joint_effects(explainer, question, pair, number)
        nearby = effects[1:]
        if effects[0] < -LARGE and nearby.mean() < -max(LARGE, nearby.std()):
            found.append(review)
        if len(found) == count:
            return found
    return found


def found_in(explanation: Explanation, review: Review) -> bool:
    """Whether the pair was found, with a minus sign."""
    for pair in explanation.interactions:
        first, second = (text.lower() for text in pair.texts)
        if (first, second) == (review.negation, review.adjective):
            return pair.strength < 0
    return False


def line(kind: str, budget: int, found: Sequence[bool], pairs: Sequence[int]) -> str:
    """A line of the table."""
    shown = f"{sum(found)} of {len(found)}" if found else "–"
    return f"| {kind} | {budget:,} | {shown} | {sum(pairs)} in {len(pairs)} texts |"


def functions(count: int, budget: int, seed: int) -> Iterator[str]:
    """The lines of the functions."""
    for averages, kind in ((False, "a sum of words"), (True, "an average of words")):
        found, pairs = [], []
        for review, _ in zip(reviews(("not",), seed + 1), range(count), strict=False):
            explainer = Explainer(
                negating(review, averages),
                labels=["negative", "positive"],
                output="logits",
                budget=budget,
            )
            explanation = explainer(review.text).for_target("positive")
            found.append(found_in(explanation, review))
            pairs.append(len(explanation.interactions))
        yield line(kind, budget, found, pairs)


def nothing_planted(count: int, budget: int, seed: int) -> Iterator[str]:
    """The lines of the SLALOMs."""
    for sink, kind in ((True, "a SLALOM with a sink"), (False, "a SLALOM without a sink")):
        pairs = []
        for number in range(count):
            text, answer = planted_slalom(20 + number % 40, sink, seed + number)
            pairs.append(len(Explainer(answer, output="logits", budget=budget)(text).interactions))
        yield line(kind, budget, [], pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=20, help="of each kind")
    parser.add_argument("--budgets", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--seed", type=int, default=0, help="chooses texts and functions")
    options = parser.parse_args(arguments)
    print("| model | calls | found with the right sign | pairs in all |")
    print("| --- | ---: | ---: | ---: |")
    embedded = in_the_embedded_model(options.texts, options.seed)
    for budget in options.budgets:
        for text_line in functions(options.texts, budget, options.seed):
            print(text_line, flush=True)
        explainer, found, pairs = Explainer(budget=budget), [], []
        for review in embedded:
            explanation = explainer(review.text).for_target("positive")
            found.append(found_in(explanation, review))
            pairs.append(len(explanation.interactions))
        print(line("the embedded model", budget, found, pairs), flush=True)
        for text_line in nothing_planted(options.texts, budget, options.seed):
            print(text_line, flush=True)


if __name__ == "__main__":
    main()
