"""Figure 1 with planted answers, and on the embedded model."""

import numpy as np
import pytest

from research.base import Settings
from research.paper import fig_1
from research.paper.imdb import Found
from research.paper.review_models import ModelSpec
from research.registry import experiments
from research.report import save

SPEC = ModelSpec("BERT type", init="minilm")


def planted(log_odds, sums):
    rows = {SPEC.key: {"sentences": {"log odds": log_odds, "naive-bayes": sums}}}
    return fig_1.outcome(Found((SPEC,), rows, ("The BERT type is planted.",)))


def test_an_average_holds_and_a_sum_does_not():
    average = planted([1.09, 0.29, 0.45], [0.93, 0.19, 1.12])  # as printed
    assert average.verdict == "holds"
    assert average.checks[1].value == pytest.approx(0.45 / 1.38)
    table = average.tables["sentences"]
    assert table["ours"].tolist() == pytest.approx(table["paper"].tolist())
    added = planted([1.0, 0.5, 1.5], [1.0, 1.0, 2.5])
    assert [check.holds for check in added.checks] == [False, False, False]
    assert added.checks[2].value == pytest.approx(1.0)  # as far beyond the range as it is wide


def test_the_embedded_model_answers(tmp_path):
    lines = ["text,label"]
    for index in range(5000):
        lines.append(f"a {('dull', 'fantastic')[index % 2]} movie,{index % 2}")
    (tmp_path / "imdb_train.csv").write_text("\n".join(lines) + "\n")
    settings = Settings(data=tmp_path, store=tmp_path / "cells")
    found = fig_1.study(settings)
    (numbers,) = found.rows["embedded"].values()
    # 2,500 reviews of one class have the word, none of the other, and 40 is added to both.
    assert numbers["naive-bayes"][0] == pytest.approx(np.log(2540 / 40))
    assert numbers["log odds"] == pytest.approx([1.84, 0.59, 1.44], abs=0.05)
    assert any(
        path.suffix == ".svg"
        for path in save(experiments()["fig-1"], fig_1.outcome(found), tmp_path / "out")
    )
