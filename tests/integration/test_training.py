"""Training: from a table to a folder that can be explained."""

import csv
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys

import pytest
import torch
from processes import started
from tiny import tiny, tokenizer
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from slalom_xai import Explainer, Explanation
from slalom_xai.data.training import TrainingOptions, train
from slalom_xai.data.training.distil import (
    best_scale,
    partial,
    projected_embeddings,
    undo_saturation,
)
from slalom_xai.data.training.encoding import EncodedTexts
from slalom_xai.data.training.start import new_tokenizer
from slalom_xai.errors import InputError, ModelError
from slalom_xai.queries.cutting import groups_by_length

WORDS = {
    "bad": ["dull", "loud", "weak"],
    "good": ["warm", "funny", "lovely"],
    "mixed": ["odd", "strange", "uneven"],
}
FILLER = ["the", "film", "story", "actor", "scene", "with", "and", "of", "music"]
SMALL = {
    "layers": 1,
    "width": 32,
    "vocabulary": 128,
    "max_length": 32,
    "rate": 1e-2,
    "epochs": 10,
    "device": "cpu",
}
TUNED = {"epochs": 12, "rate": 2e-3, "device": "cpu"}


def rows(count=160, classes=("bad", "good"), seed=0):
    """Texts whose class is that of the one telling word in them."""
    rng = random.Random(seed)
    made = []
    for index in range(count):
        label = classes[index % len(classes)]
        words = [rng.choice(FILLER) for _ in range(rng.randint(2, 6))]
        words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS[label]))
        made.append({"text": " ".join(words), "label": label})
    return made


def table(path, records):
    """Writes a table in the format of its name."""
    if path.name.endswith(".csv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    else:
        path.write_bytes(
            gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode())
        )
    return path


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return table(tmp_path_factory.mktemp("data") / "reviews.csv", rows())


@pytest.fixture(scope="module")
def trained(reviews, tmp_path_factory):
    """A small encoder from scratch, and its report."""
    folder = tmp_path_factory.mktemp("models") / "scratch"
    lines = []
    report = train(reviews, folder, TrainingOptions(**SMALL), tell=lines.append)
    return folder, report, lines


def saved(architecture, tmp_path):
    """A tiny pretrained stand-in as a folder."""
    model, words = tiny(architecture)
    model.save_pretrained(tmp_path / architecture)
    words.save_pretrained(tmp_path / architecture)
    return tmp_path / architecture


def log_odds(folder, text, second=None):
    model, words = (
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        logits = model(**words(text, second, return_tensors="pt")).logits[0].float()
    return float(logits[1] - logits[0])


def test_an_encoder_from_scratch_learns_the_rule_and_explains_it(trained):
    folder, report, lines = trained
    assert report.validation.accuracy == 1.0
    assert report.labels == ("bad", "good")
    assert report.rows == 144
    assert report.validation.rows == 16
    assert len(report.history) == 10
    assert [
        line
        for line in lines
        if not re.match(
            r"epoch \d+/10: training loss .*, validation loss .*, accuracy \d\.\d{4}, .* s", line
        )
    ] == []
    explanation = Explainer(str(folder), device="cpu")("the story with funny music of the actor")
    assert explanation.target == "good"
    assert max(explanation.as_list("removal"), key=lambda pair: pair[1])[0] == "funny"


def test_the_folder_holds_what_it_should(trained, reviews):
    folder, report, _ = trained
    record = json.loads((folder / "training.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == record["files"]
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
    } <= set(record["files"])
    assert record["report"] == json.loads(json.dumps(report.to_dict()))
    assert record["options"]["width"] == 32
    assert record["data"]["training"]["classes"] == {"bad": 80, "good": 80}
    assert len(record["data"]["training"]["sha256"]) == 64
    assert record["data"]["training"]["path"] == str(reviews)
    assert set(record["versions"]) == {
        "slalom-xai",
        "torch",
        "transformers",
        "tokenizers",
        "python",
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert config["text_pair"] is False
    assert "TokenizersBackend" not in (folder / "tokenizer_config.json").read_text()
    assert json.loads((folder / "tokenizer.json").read_text())["truncation"] is None


def test_a_seed_fixes_the_weights_and_leaves_the_callers_numbers_alone(trained, reviews, tmp_path):
    folder, _, _ = trained
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(reviews, tmp_path / "same", TrainingOptions(**SMALL))
    assert torch.equal(torch.rand(3), expected)
    train(reviews, tmp_path / "other", TrainingOptions(**SMALL | {"seed": 1, "epochs": 1}))
    weights = [
        (place / "model.safetensors").read_bytes()
        for place in (folder, tmp_path / "same", tmp_path / "other")
    ]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_a_decoder_from_scratch_with_three_named_classes(tmp_path):
    numbers = {"bad": 2, "good": 10, "mixed": 3}
    records = [
        {"text": row["text"], "label": numbers[row["label"]]} for row in rows(180, tuple(WORDS))
    ]
    source = table(tmp_path / "a.jsonl.gz", records)
    options = TrainingOptions(
        family="gpt2", labels=("bad", "mixed", "good"), test=source, half=True, **SMALL
    )
    report = train(source, tmp_path / "out", options)
    assert report.labels == ("bad", "mixed", "good")
    assert report.test.accuracy > 0.95
    assert report.test.rows == 180
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.model_type == "gpt2"
    assert model.config.num_hidden_layers == 1
    explanation = Explainer(str(tmp_path / "out"), device="cpu", target="mixed")(
        "the story with odd music of the actor"
    )
    assert max(explanation.as_list("removal"), key=lambda pair: pair[1])[0] == "odd"
    assert (
        json.loads((tmp_path / "out" / "training.json").read_text())["report"]["test"]["accuracy"]
        == report.test.accuracy
    )


def test_a_distilbert_from_scratch(reviews, tmp_path):
    report = train(
        reviews, tmp_path / "out", TrainingOptions(family="distilbert", test=reviews, **SMALL)
    )
    assert report.test.accuracy > 0.9
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert model.config.model_type == "distilbert"
    assert model.config.n_layers == 1


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_fine_tuning_keeps_the_architecture(architecture, reviews, tmp_path):
    report = train(
        reviews,
        tmp_path / "out",
        TrainingOptions(init=saved(architecture, tmp_path), test=reviews, **TUNED),
    )
    assert report.test.accuracy > 0.85
    words, config = (
        json.loads((tmp_path / "out" / name).read_text())
        for name in ("tokenizer_config.json", "config.json")
    )
    assert config["model_type"] == architecture
    assert isinstance(config["pad_token_id"], int)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").pad_token_id == config["pad_token_id"]
    assert words["pad_token"] is not None
    assert (
        Explainer(str(tmp_path / "out"), device="cpu", budget=200)(
            "the warm story of music"
        ).prediction
        > 0
    )


def test_a_decoder_whose_tokenizer_ends_texts_gets_a_padding_token_of_its_own(reviews, tmp_path):
    words = tokenizer({"bos_token": "<s>", "eos_token": "</s>"}, "<s> $A </s>")
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "num_key_value_heads": 2,
    }
    LlamaForSequenceClassification(
        LlamaConfig(vocab_size=len(words), bos_token_id=0, eos_token_id=1, **size)
    ).save_pretrained(tmp_path / "llama")
    words.save_pretrained(tmp_path / "llama")
    train(
        reviews, tmp_path / "out", TrainingOptions(init=tmp_path / "llama", **TUNED | {"epochs": 1})
    )
    found = AutoTokenizer.from_pretrained(tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert found.pad_token == "<|pad|>"
    assert model.config.pad_token_id == found.pad_token_id == len(words)
    with torch.inference_mode():
        alone = model(**found("a dull film", return_tensors="pt")).logits
        padded = model(
            **found(
                ["a dull film", "a dull film with loud music"], return_tensors="pt", padding=True
            )
        ).logits[:1]
    assert torch.allclose(alone, padded, atol=1e-4)


def test_the_first_layers_can_be_kept(reviews, tmp_path):
    start = saved("bert", tmp_path)
    train(
        reviews,
        tmp_path / "out",
        TrainingOptions(init=start, layers=1, **TUNED | {"epochs": 1, "rate": 1e-9}),
    )
    before = AutoModelForSequenceClassification.from_pretrained(start).state_dict()
    after = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").state_dict()
    assert not [name for name in after if "layer.1." in name]
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.allclose(before[name], after[name], atol=1e-6)
    with pytest.raises(ModelError, match=r"--layers is 3, but .* has 2 layers: give at most 2"):
        train(reviews, tmp_path / "more", TrainingOptions(init=start, layers=3, **TUNED))


def test_pairs(tmp_path):
    rng = random.Random(0)
    records = []
    for index in range(240):
        first, second = rng.choice(FILLER), rng.choice([*WORDS["bad"], *WORDS["good"]])
        records.append(
            {
                "text": f"{first} film",
                "other": f"a {second} one",
                "label": "yes" if second in WORDS["good"] else "no",
            }
        )
        records[-1]["text"] += f" {index % 7}"
    report = train(
        table(tmp_path / "a.csv", records), tmp_path / "out", TrainingOptions(pair="other", **SMALL)
    )
    assert report.validation.accuracy > 0.95
    assert json.loads((tmp_path / "out" / "config.json").read_text())["text_pair"] is True
    assert (
        log_odds(tmp_path / "out", "the film 3", "a warm one")
        > 0
        > log_odds(tmp_path / "out", "the film 3", "a dull one")
    )
    with pytest.raises(InputError, match="puts nothing between two texts"):
        train(
            tmp_path / "a.csv",
            tmp_path / "no",
            TrainingOptions(pair="other", init=saved("gpt2", tmp_path), **TUNED),
        )


def test_a_student_learns_from_a_teacher(trained, reviews, tmp_path):
    folder, _, _ = trained
    options = TrainingOptions(teacher=folder, parts=2, test=reviews, **SMALL | {"rate": 5e-3})
    report = train(reviews, tmp_path / "out", options)
    assert report.test.accuracy > 0.95
    # The scale is in the saved weights, so the test is scored with it. Unscaled, the loss of the
    # kept epoch is larger.
    assert report.validation.loss < report.history[report.best_epoch - 1].validation_loss
    assert report.test.loss == pytest.approx(report.validation.loss, abs=0.1)
    assert report.scale != 1.0
    with pytest.raises(
        ModelError, match=r"knows the classes bad, good, but the table has bad, good, mixed"
    ):
        train(
            table(tmp_path / "b.csv", rows(90, tuple(WORDS))),
            tmp_path / "no",
            TrainingOptions(teacher=folder, **SMALL),
        )


def test_a_student_hears_the_classes_in_its_own_order(trained, reviews, tmp_path):
    folder, _, _ = trained
    options = TrainingOptions(teacher=folder, labels=("good", "bad"), **SMALL | {"rate": 5e-3})
    report = train(reviews, tmp_path / "out", options)
    assert report.labels == ("good", "bad")
    assert report.validation.accuracy > 0.9
    assert (
        log_odds(tmp_path / "out", "the warm story")
        < 0
        < log_odds(tmp_path / "out", "the dull story")
    )


def test_patience_ends_it_early_and_the_best_epoch_is_kept(reviews, tmp_path):
    report = train(reviews, tmp_path / "out", TrainingOptions(patience=2, **SMALL | {"epochs": 60}))
    assert len(report.history) == report.best_epoch + 2 < 60
    best = max(
        report.history, key=lambda epoch: (epoch.validation_accuracy, -epoch.validation_loss)
    )
    assert best.epoch == report.best_epoch
    assert report.validation.loss == pytest.approx(best.validation_loss)
    assert report.notes == (
        f"stopped after epoch {best.epoch + 2}: no better validation accuracy for 2 epochs; "
        f"epoch {best.epoch} is kept",
    )


def test_an_interruption_keeps_the_best_epoch(reviews, tmp_path):
    def interrupt(line):
        if line.startswith("epoch 2/"):
            signal.raise_signal(signal.SIGINT)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report = train(
            reviews, tmp_path / "out", TrainingOptions(**SMALL, test=reviews), tell=interrupt
        )
    finally:
        signal.signal(signal.SIGINT, usual)
    assert report.interrupted
    assert len(report.history) == 2
    assert report.test is None
    assert log_odds(tmp_path / "out", "the warm story") != 0
    assert "interrupted in epoch 3" in report.notes[0]


def test_long_texts_are_cut_and_it_is_said(reviews, tmp_path):
    records = [
        *rows(40),
        {"text": "the warm film " * 40, "label": "good"},
        {"text": "the dull film " * 40, "label": "bad"},
    ]
    lines = []
    report = train(
        table(tmp_path / "a.csv", records),
        tmp_path / "out",
        TrainingOptions(holdout=0.04, **SMALL),
        tell=lines.append,
    )
    told = [note for note in report.notes if "were cut" in note]
    assert sum(int(note.split()[0]) for note in told) == 2
    assert all("are longer than 32 tokens and were cut there" in note for note in told)
    assert set(told) <= set(lines)


def test_a_loss_that_is_no_number_is_an_error(reviews, tmp_path):
    with pytest.raises(
        ModelError,
        match=r"the loss is no longer a finite number in epoch 1: give a --rate below 1e\+36",
    ):
        train(reviews, tmp_path / "out", TrainingOptions(**SMALL | {"rate": 1e36}))
    assert not (tmp_path / "out").exists()


def test_a_folder_is_only_replaced_when_asked_and_only_its_own_files(trained, reviews, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty: give a new folder, or --overwrite"):
        train(reviews, out, TrainingOptions(**SMALL))
    with pytest.raises(InputError, match=r"was not made by slalom train"):
        train(reviews, out, TrainingOptions(**SMALL, overwrite=True))
    (out / "vocab.txt").write_text("old")
    (out / "training.json").write_text('{"files": ["vocab.txt", "training.json", "../outside"]}')
    (tmp_path / "outside").write_text("not in the folder")
    train(reviews, out, TrainingOptions(**SMALL | {"epochs": 1}, overwrite=True))
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "vocab.txt").exists()
    assert (tmp_path / "outside").exists()
    assert (out / "model.safetensors").exists()
    with pytest.raises(InputError, match="which is a file"):
        train(reviews, out / "notes.txt", TrainingOptions(**SMALL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "/no/such/model"}, r"there is no folder '/no/such/model'"),
        ({"teacher": "/no/such/model"}, r"there is no folder '/no/such/model'"),
        ({"device": "abacus"}, r"unknown device 'abacus'"),
        ({"device": "cuda:99"}, r"cannot use the device cuda:99"),
        ({"width": 13}, r"--width is 13, which attention heads cannot share evenly"),
    ],
)
def test_what_cannot_be_loaded_or_built_is_one_line(options, message, reviews, tmp_path):
    with pytest.raises((InputError, ModelError), match=message) as caught:
        train(reviews, tmp_path / "out", TrainingOptions(**options))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_limit_beyond_the_models_is_refused(reviews, tmp_path):
    with pytest.raises(
        InputError, match=r"--max-length is 500, but the model reads at most 128 tokens"
    ):
        train(
            reviews,
            tmp_path / "out",
            TrainingOptions(init=saved("bert", tmp_path), max_length=500, device="cpu"),
        )


def test_damaged_weights_are_named(trained, reviews, tmp_path):
    start = saved("bert", tmp_path)
    weights = start / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot load the model to start from"):
        train(reviews, tmp_path / "out", TrainingOptions(init=start))


SHAPE = [
    "--layers",
    1,
    "--width",
    32,
    "--vocabulary",
    128,
    "--max-length",
    32,
    "--rate",
    0.01,
    "--device",
    "cpu",
]
ENVIRONMENT = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def test_the_command_trains_reports_and_leads_on(slalom, reviews, tmp_path):
    out = tmp_path / "out"
    done = slalom("train", reviews, "--out", out, "--epochs", 4, "--test", reviews, *SHAPE)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        f"epoch {epoch}/4" for epoch in range(1, 5)
    ]
    assert re.search(
        r"^test: accuracy \d\.\d{4}, mean confidence \d\.\d{4}, 160 texts$",
        done.stdout,
        re.MULTILINE,
    )
    assert f'Next: slalom explain --model {out} "..."' in done.stdout
    review = "the warm story of music"
    explained = slalom("explain", "--model", out, "--json", "--device", "cpu", review)
    assert Explanation.from_dict(json.loads(explained.stdout)).target == "good"
    refused = slalom("train", reviews, "--out", out)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: --out is ")
    assert refused.stderr.count("\n") == 1


@pytest.mark.long
def test_control_c_saves_the_best_epoch_and_exits_130(reviews, tmp_path):
    arguments = ("train", reviews, "--out", tmp_path / "out", "--json", *SHAPE)
    arguments += ("--epochs", 100000, "--patience", 100000)
    command = [sys.executable, "-m", "slalom_xai", *map(str, arguments)]
    with started(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        for line in process.stderr:
            if line.startswith("epoch 3/"):
                process.send_signal(signal.SIGINT)
                break
        output, errors = process.communicate()
    assert process.returncode == 130, errors
    report = json.loads(output)
    assert report["interrupted"] is True
    assert len(report["history"]) >= 3
    assert f"interrupted; what was learned until then is saved in {tmp_path / 'out'}" in errors
    assert (
        Explainer(str(tmp_path / "out"), device="cpu", budget=100)(
            "the warm story of music"
        ).prediction
        != 0
    )


def test_batches_hold_every_row_once_within_their_bounds():
    lengths = [random.Random(3).randint(1, 40) for _ in range(200)]
    for rng in (None, random.Random(0)):
        for exact in (False, True):
            groups = groups_by_length(lengths, tokens=160, rows=9, rng=rng, exact=exact)
            assert sorted(row for group in groups for row in group) == list(range(200))
            assert max(len(group) for group in groups) <= 9
            assert max(len(group) * max(lengths[row] for row in group) for group in groups) <= 160
            if exact:
                assert all(len({lengths[row] for row in group}) == 1 for group in groups)


def test_rows_are_padded_on_either_side_and_never_lose_fixed_tokens():
    encoded = EncodedTexts(
        [[1, 2, 3], [4, 5, 6, 7, 8, 9]],
        [[0, 0, 1], [0, 0, 0, 1, 1, 1]],
        77,
        torch.device("cpu"),
        fixed=[1, 3, 4, 7, 9],
    )
    right, left = encoded.batch([0, 1]), encoded.batch([0, 1], "left")
    assert right["input_ids"].tolist() == [[1, 2, 3, 77, 77, 77], [4, 5, 6, 7, 8, 9]]
    assert left["input_ids"].tolist() == [[77, 77, 77, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
    assert left["attention_mask"].tolist() == [[0, 0, 0, 1, 1, 1], [1] * 6]
    assert right["token_type_ids"].tolist() == [[0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]
    torch.manual_seed(0)
    for _ in range(20):
        holed = encoded.batch([0, 1], "right", 0.6)
        for row, mask, whole in zip(
            holed["input_ids"].tolist(),
            holed["attention_mask"].tolist(),
            ([1, 2, 3], [4, 5, 6, 7, 8, 9]),
            strict=True,
        ):
            kept = [token for token, there in zip(row, mask, strict=True) if there]
            assert kept == [token for token in whole if token in kept]
            assert {1, 3, 4, 7, 9} & set(whole) <= set(kept)
            assert row[len(kept) :] == [77] * (len(row) - len(kept))


def test_a_partial_text_is_a_span_with_or_without_holes():
    text = " ".join(f"w{index}" for index in range(60))
    rng = random.Random(0)
    spans = [partial(text, rng, holes=False) for _ in range(40)]
    assert all(span in text for span in spans)
    assert len({len(span.split()) for span in spans}) > 10
    holed = [partial(text, rng, holes=True).split() for _ in range(40)]
    assert all(words == sorted(words, key=text.split().index) for words in holed)
    assert any(" ".join(words) not in text for words in holed)
    assert partial("one", rng, holes=True) == "one"


def test_stretching_keeps_the_order_and_undoes_saturation():
    true = torch.linspace(-8, 8, 33)[:, None] * torch.tensor([[-1.0, 1.0]])
    saturated = 3 * torch.tanh(true / 3)
    result = undo_saturation(saturated)
    assert torch.equal(result.argsort(0), true.argsort(0))
    assert torch.allclose(result.sum(1), torch.zeros(33), atol=1e-5)
    assert float(result.abs().max()) > 1.5 * float(saturated.abs().max())
    assert torch.allclose(undo_saturation(0.01 * saturated[16:17] + 0), torch.zeros(1, 2))


def test_the_scale_is_the_temperature_that_was_planted():
    torch.manual_seed(0)
    logits = torch.randn(20000, 3)
    labels = torch.distributions.Categorical(logits=logits).sample()
    assert best_scale(4 * logits, labels) == pytest.approx(0.25, rel=0.06)


def test_a_tokenizer_is_the_same_every_time_and_knows_no_other_special_tokens():
    texts = [
        f"{first}{second} {second}{first}!"
        for first in "abcdefghijklm"
        for second in "nopqrstuvwxyzé漢"
    ]
    made = [new_tokenizer(texts, vocabulary=120, limit=32, family="gpt2") for _ in range(6)]
    assert all(words.get_vocab() == made[0].get_vocab() for words in made[1:])
    assert made[0].convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert "##e" in made[0].get_vocab()
    assert "##e" not in made[0].tokenize("##e")
    assert made[0].tokenize("É漢") == ["e", "漢"]
    assert list(made[0]("an")) == ["input_ids", "attention_mask"]


def test_projected_embeddings_keep_the_leading_directions():
    words = new_tokenizer([row["text"] for row in rows()], vocabulary=128, limit=32, family="bert")
    torch.manual_seed(0)
    weights = torch.randn(len(words), 6) * torch.tensor([5.0, 3.0, 1.0, 0.1, 0.1, 0.1])
    found = projected_embeddings(words, words, weights, 3)
    kept = found @ found.T / (found @ found.T).norm()
    centred = weights - weights.mean(0)
    assert float((kept * (centred @ centred.T / (centred @ centred.T).norm())).sum()) > 0.99
    assert projected_embeddings(words, words, weights, 50).shape == (len(words), 6)
