"""``benchmarks/few_calls.py``: its texts, its held-out rows, its lines and its tables."""

import json

import numpy as np
import pytest
import torch
from word_games import Game, additive

from benchmarks.few_calls import GROUPS, choose_texts, main
from benchmarks.few_calls_ground import Ground, Watched
from benchmarks.few_calls_tables import print_tables
from slalom_xai import Explainer
from slalom_xai.models import prompt
from slalom_xai.queries import Batches

SENTENCES = ("It begins slowly.", "Then it is a warm film with a fine cast!", "Go and see it.")
REVIEWS = [" ".join(np.roll(SENTENCES, turn).tolist() * 8) for turn in range(3)]
WORDS = [f"w{number}" for number in range(16)]
NOTHING = np.zeros(0, dtype=np.int64)


@pytest.fixture
def ground():
    weights = {word: (-1.0) ** place * (place + 1) for place, word in enumerate(WORDS)}
    model = Game(additive(weights))
    question = prompt(model.read(" ".join(WORDS)), "token")
    return Ground(Batches(model), question, [100, 20_000], np.random.default_rng(0))


def test_texts_are_beginnings_of_the_right_length_cut_at_the_end_of_a_sentence():
    model = Explainer(show_progress=False).model
    texts = [f"{name} {review}" for name in "ABCDEFGHIJ" for review in REVIEWS]
    chosen = choose_texts(model, texts, 4, seed=3)
    for group, (least, most) in GROUPS.items():
        assert len(chosen[group]) == 4
        for item in chosen[group]:
            assert least <= len(prompt(model.read(item.text), "token").units) <= most
            assert item.text[-1] in ".!"
            assert any(text.startswith(item.text) for text in texts)
    assert choose_texts(model, texts, 4, seed=3) == chosen
    assert choose_texts(model, texts, 4, seed=4) != chosen


def test_an_additive_model_has_no_error_for_the_linear_fits_and_all_of_it_for_nothing(ground):
    assert ground.budgets == [100]  # 16 words have too few rows for the other
    errors = ground.linear_errors(100, NOTHING)
    nothing = ground.errors(lambda counts: torch.zeros_like(counts[:, :1]), NOTHING)
    for name in ("local", "wide"):
        changes = ground.test[name].outputs - ground.full
        assert nothing[name] == pytest.approx(float(changes.pow(2).mean()))
        assert errors[name] < 1e-3 * nothing[name]


def test_no_yardstick_is_fitted_to_a_held_out_row(ground):
    held_out = {key for rows in ground.test.values() for key in rows.keys.tolist()}
    assert len(held_out) == 1000
    assert len(ground.fitted) == 100 + 100 + 100  # local, wide and those of the process
    assert held_out.isdisjoint(ground.fitted.tolist())


def test_rows_that_somebody_asked_do_not_count(ground):
    asked = ground.test["wide"].keys[:100]
    counted = ground.test["wide"].unlike(asked)
    assert len(counted.keys) == len(ground.test["wide"].keys) - 100
    assert torch.equal(counted.counts, ground.test["wide"].counts[100:])
    assert ground.variances(asked) != ground.variances(NOTHING)


def test_an_explainer_knows_the_rows_that_it_asked():
    model = Game(additive(dict.fromkeys(WORDS, 1.0)))
    watched = Watched(model, "occlusion", 60)
    text = " ".join(WORDS)
    explanation = watched(text)
    question = prompt(model.read(text), "token")
    assert set(question.keys(~np.eye(16, dtype=bool))) < set(watched.asked[text])
    assert len(watched.asked[text]) == explanation.calls


@pytest.mark.long
def test_a_run_writes_lines_goes_on_where_it_stopped_and_prints_tables(tmp_path, capsys):
    data, out = tmp_path / "reviews.jsonl", tmp_path / "few.jsonl"
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in REVIEWS))
    command = ["--data", str(data), "--out", str(out), "--texts", "1"]
    command += ["--budgets", "300", "--seed", "1"]
    main([*command, "--seconds", "0"])
    assert "0 of 1 short texts, 0 of 1 long texts" in capsys.readouterr().out
    assert not out.exists()
    for _ in range(2):
        main(command)
        printed = capsys.readouterr().out
        assert "1 of 1 short texts, 1 of 1 long texts" in printed
        assert "| embedded | short | 1 | 300 |" in printed
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert [line["group"] for line in lines] == ["short", "long"]
    for line in lines:
        assert 0 < line["slalom"]["wide"] < line["variance"]["wide"]


def test_the_race_names_the_fewest_calls_that_reach_lime(tmp_path, capsys):
    def line(method, budget, wide, seconds, **more):
        key = {"model": "m", "seed": 0, "group": "short", "text": 0, "kind": "race"}
        return {**key, "budget": budget, "method": method, "wide": wide, "seconds": seconds, **more}

    lines = [line("slalom", 150, None, None, failed="too small"), line("lime", 5000, 0.2, 6.0)]
    for budget, error in ((200, 0.3), (300, 0.15), (500, 0.1)):
        lines.append(line("slalom", budget, error, 2.0))
    path = tmp_path / "race.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    print_tables([path])
    assert "| m | short | 1 | 5000 | 0.2 | 6.00 | `slalom` | 300 | 0.15 | 2.00 | 3.0 |" in (
        capsys.readouterr().out
    )
