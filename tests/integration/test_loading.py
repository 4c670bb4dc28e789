"""Folders that are damaged, incomplete or have code of their own are refused in one line."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import ARCHITECTURES, tiny

from slalom_xai import Explainer
from slalom_xai.data.corpus import ExplainOptions
from slalom_xai.data.training.start import load_start, load_teacher
from slalom_xai.errors import InputError, ModelError, SlalomError
from slalom_xai.models.fingerprints import fingerprint
from slalom_xai.models.hub import check_words, load_tokenizer, locate_model
from slalom_xai.models.language import AnswerModel

# Before version 5, transformers says by itself that there is no tokenizer.
NO_TOKENIZER = "the tokenizer files are missing|cannot load a tokenizer from"

ATTACK = """
import pathlib, sys
from slalom_xai import Explainer
from slalom_xai.errors import SlalomError
from slalom_xai.data.training.start import load_start, load_teacher

folder, onnx = sys.argv[1:]
attempts = {
    "folder": lambda: Explainer(folder),
    "onnx": lambda: Explainer(onnx),
    "tokenizer": lambda: Explainer(lambda texts: texts, tokenizer=folder),
    "start": lambda: load_start(
        folder, ["a", "b"], layers=None, revision=None, trust_remote_code=False
    ),
    "teacher": lambda: load_teacher(folder, ["a", "b"], trust_remote_code=False),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except SlalomError as error:
        print(f"{name}: {error}", file=sys.stderr)
    else:
        print(f"{name}: loaded", file=sys.stderr)
"""


def saved(folder: Path, *, tokenizer: bool = True, architecture: str = "bert") -> Path:
    model, own = tiny(architecture)
    model.save_pretrained(folder)
    if tokenizer:
        own.save_pretrained(folder)
    return folder


def saved_onnx(folder: Path, *, tokenizer: bool = True) -> Path:
    """A session that averages ids, beside the configuration and tokenizer of the tiny BERT."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto
    inputs = [
        helper.make_tensor_value_info(name, kinds.INT64, ["rows", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=kinds.FLOAT),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Neg", ["mean"], ["less"]),
        helper.make_node("Concat", ["less", "mean"], ["logits"], axis=1),
    ]
    answer = helper.make_tensor_value_info("logits", kinds.FLOAT, ["rows", 2])
    made = helper.make_model(
        helper.make_graph(nodes, "mean", inputs, [answer]),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    made.ir_version = 8
    model, own = tiny("bert")
    model.config.save_pretrained(folder)
    if tokenizer:
        own.save_pretrained(folder)
    onnx.save(made, str(folder / "model.onnx"))
    return folder


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(SlalomError) as caught:
        Explainer(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700
    return message


def outcome(attempt: Callable[[], object]) -> str:
    """What a refusal says; nothing where there is none, as some odd files do no harm."""
    try:
        attempt()
    except SlalomError as error:
        return str(error)
    return ""


def with_own_code(folder: Path) -> None:
    """Makes the tokenizer and the configuration of a folder name code that leaves a trace."""
    (folder / "own_code.py").write_text(
        f"import pathlib\npathlib.Path({str(folder / 'ran')!r}).write_text('ran')\n"
    )
    for file, key, kind in (
        ("tokenizer_config.json", "AutoTokenizer", ["own_code.Own", None]),
        ("config.json", "AutoConfig", "own_code.Own"),
    ):
        held = json.loads((folder / file).read_text())
        held["auto_map"] = {key: kind}
        held["tokenizer_class" if file != "config.json" else "model_type"] = "Own"
        (folder / file).write_text(json.dumps(held))


@pytest.mark.long
@pytest.mark.parametrize("which", ["tokenizer", "config", "both"])
def test_code_in_a_folder_is_never_run_and_nobody_is_asked(tmp_path, which):
    plain, exported = saved(tmp_path / "plain"), tmp_path / "onnx"
    exported.mkdir()
    saved_onnx(exported)
    for folder in (plain, exported):
        before = {
            name: (folder / name).read_bytes() for name in ("config.json", "tokenizer_config.json")
        }
        with_own_code(folder)
        if which != "both":
            other = "config.json" if which == "tokenizer" else "tokenizer_config.json"
            (folder / other).write_bytes(before[other])
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
    }
    command = [sys.executable, "-c", ATTACK, str(plain), str(exported)]
    done = subprocess.run(
        command,
        input="y\n" * 50,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert not (plain / "ran").exists()
    assert not (exported / "ran").exists()
    told = dict(line.split(": ", 1) for line in done.stderr.splitlines() if ": " in line)
    assert "has its own code" in told["onnx"]
    assert "trust_remote_code=True" in told["onnx"]
    assert all("loaded" not in told[name] for name in ("folder", "onnx", "start", "teacher"))


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "mamba"])
def test_a_folder_without_tokenizer_files_is_refused(tmp_path, architecture):
    folder = saved(tmp_path, tokenizer=False, architecture=architecture)
    assert "tokenizer" in refusal(str(folder))


def test_missing_tokenizer_files_are_named_as_such_wherever_a_tokenizer_is_loaded(tmp_path):
    folder = saved(tmp_path / "plain", tokenizer=False)
    exported = tmp_path / "onnx"
    exported.mkdir()
    saved_onnx(exported, tokenizer=False)
    for place in (folder, exported):
        assert re.search(NO_TOKENIZER, refusal(str(place)))
    with pytest.raises(ModelError, match=NO_TOKENIZER):
        load_tokenizer(str(folder))
    with pytest.raises(ModelError, match=NO_TOKENIZER):
        load_start(folder, ["a", "b"], layers=None, revision=None, trust_remote_code=False)
    with pytest.raises(ModelError, match=NO_TOKENIZER):
        load_teacher(folder, ["bad", "good"], trust_remote_code=False)
    _, own = tiny("bert")
    assert Explainer(str(folder), own, budget=60)("a quiet film").units


def test_half_a_tokenizer_is_refused(tmp_path):
    folder = saved(tmp_path, tokenizer=False, architecture="roberta")
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.json").write_text(
        json.dumps({word: place for place, word in enumerate(words)})
    )
    assert "tokenizer" in refusal(str(folder))


def test_a_tokenizer_with_words_passes(tmp_path):
    for architecture in ("bert", "gpt2", "t5", "xlnet"):
        check_words(tiny(architecture)[1], str(tmp_path))


def damage_weights(folder: Path, kind: str) -> None:
    file = folder / "model.safetensors"
    held = file.read_bytes()
    if kind == "cut":
        file.write_bytes(held[: len(held) // 2])
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "noise":
        file.write_bytes(bytes(range(256)) * 40)
    elif kind == "header":
        file.write_bytes(held[:8] + b"{" * 40 + held[48:])
    elif kind == "size":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps({**config, "vocab_size": 500, "intermediate_size": 48})
        )


@pytest.mark.parametrize("kind", ["cut", "empty", "noise", "header", "size"])
def test_damaged_weights_are_one_line(tmp_path, kind):
    folder = saved(tmp_path)
    damage_weights(folder, kind)
    assert str(folder) in refusal(str(folder))
    with pytest.raises(ModelError, match="the teacher"):
        load_teacher(folder, ["bad", "good"], trust_remote_code=False)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 33},
        {"hidden_size": "many"},
        {"num_attention_heads": 0},
        {"hidden_act": "nope"},
        {"num_hidden_layers": -1.5},
        {"vocab_size": None},
        {"id2label": 7},
        {"id2label": {"0": "a", "5": "b"}},
        {"model_type": "nope"},
        {"model_type": 3},
        {"torch_dtype": "float99"},
    ],
    ids=str,
)
def test_a_bad_configuration_is_one_line(tmp_path, change):
    folder = saved(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    assert "\n" not in outcome(lambda: Explainer(str(folder), budget=60)("a quiet film"))


@pytest.mark.parametrize("held", ["{", "", "[]", "null", "\x00", '{"model_type": "bert"'])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_a_broken_file_is_one_line_about_loading(tmp_path, file, held):
    plain, exported = saved(tmp_path / "plain"), tmp_path / "onnx"
    exported.mkdir()
    saved_onnx(exported)
    for folder in (plain, exported):
        (folder / file).write_text(held)
        said = outcome(lambda place=str(folder): Explainer(place))
        assert "\n" not in said
        assert "write" not in said


def test_a_pickle_that_runs_code_is_refused_in_one_line(tmp_path):
    folder = saved(tmp_path)
    (folder / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return (Path.touch, (folder / "ran",))

    with open(folder / "pytorch_model.bin", "wb") as file:
        pickle.dump({"weights": Trap()}, file)
    assert "cannot load a classifier" in refusal(str(folder))
    torch.save({"weights": Trap()}, folder / "pytorch_model.bin")
    assert "cannot load a classifier" in refusal(str(folder))
    assert not (folder / "ran").exists()


def test_a_device_without_numbers_is_refused():
    assert "meta" in refusal(device="meta")
    assert "unknown device" in refusal(device="nowhere")
    model, own = tiny("bert")
    assert "meta" in refusal(type(model)(model.config).to("meta"), own)


def test_onnx_runtime_refuses_devices_it_does_not_know(tmp_path):
    assert "cpu or cuda" in refusal(str(saved_onnx(tmp_path)), device="mps")


@pytest.mark.parametrize(
    "name",
    [
        "./nowhere",
        "../nowhere/at/all",
        "/nowhere",
        "~/nowhere/at/all",
        "a/b/c",
        "nowhere/",
        "C:\\models\\x",
    ],
)
def test_a_missing_folder_is_said_at_once(name):
    for message in (refusal(name), refusal(lambda texts: texts, tokenizer=name)):
        assert message.startswith(f"there is no folder {name!r}")
        assert "internet" not in message
        assert "huggingface" not in message


def test_a_missing_file_is_said_at_once(tmp_path):
    assert "there is no folder" in refusal(tmp_path / "nowhere")
    assert "there is no" in refusal(str(tmp_path / "nowhere.onnx"))
    assert "there is no file" in refusal("nowhere.onnx")


def test_what_may_be_a_hub_id_is_left_to_the_hub(tmp_path, monkeypatch):
    assert [locate_model(name) for name in ("gpt2", "org/name", "org/name-1.5")] == [
        "gpt2",
        "org/name",
        "org/name-1.5",
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(tmp_path / "mine")
    assert locate_model("~/mine") == str(tmp_path / "mine")
    assert Explainer("~/mine", budget=60)("a quiet film").units


def test_labels_rename_what_a_configuration_only_numbers(tmp_path):
    folder = saved(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    named = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    (folder / "config.json").write_text(json.dumps({**config, **named}))
    found = Explainer(str(folder), labels=["bad", "fine"], budget=60)("a quiet film")
    assert found.outputs.labels == ("bad", "fine")
    shutil.copy(folder / "config.json", folder / "kept.json")
    (folder / "config.json").write_text(json.dumps(config))
    assert "names its own classes (bad, good)" in refusal(str(folder), labels=["a", "b"])
    assert Explainer(str(folder), labels=["bad", "good"]).model.outputs.labels == ("bad", "good")
    with pytest.raises(InputError, match="3 names"):
        Explainer(str(folder), labels=["a", "b", "c"])


@pytest.mark.parametrize("length", [[512], "many", True])
def test_a_tokenizer_whose_limit_is_no_number_is_refused(length, tmp_path):
    path = saved(tmp_path) / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": length}))
    assert "model_max_length" in refusal(str(tmp_path))


def test_a_tokenizer_that_fails_only_when_it_is_used_is_refused(tmp_path):
    path = saved(tmp_path) / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_input_names": 3}))
    with pytest.raises(ModelError, match=r"the tokenizer fails on 'a quiet film' \(TypeError"):
        Explainer(str(tmp_path), budget=60)("a quiet film")


@pytest.mark.parametrize("name", ["embedded", "bundled"])
def test_the_bundled_model_has_one_meaning(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / name)  # ./embedded would be this one
    default = Explainer(budget=60)
    named = Explainer(name, budget=60)
    assert named.model.name == default.model.name
    assert named("a quiet film").prediction == default("a quiet film").prediction
    assert ExplainOptions(model=name) == ExplainOptions()
    assert fingerprint(name, None) == fingerprint(None, None)
    assert load_tokenizer(name).get_vocab() != tiny("bert")[1].get_vocab()
    assert Explainer(f"./{name}", budget=60).model.outputs.labels == ("bad", "good")
    with pytest.raises(ModelError, match="bundled classifier, which writes no text"):
        AnswerModel(name)


@pytest.mark.parametrize("name", ["no where!", "-name", "a/b?", "film..model"])
def test_what_cannot_be_a_hub_id_is_said_at_once(name):
    for message in (refusal(name), refusal(lambda texts: texts, tokenizer=name)):
        assert message.startswith(f"there is no folder {name!r}, and it cannot be a hub id")


@pytest.fixture
def broken_hub():
    """A hub that hangs up, and the lines that it was sent."""
    calls = []

    class HangUp(socketserver.StreamRequestHandler):
        def handle(self):
            calls.append(self.rfile.readline().decode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangUp) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", calls
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("offline", "called", "why"),
    [("0", 1, "the hub cannot be reached"), ("1", 0, "HF_HUB_OFFLINE says not to use")],
)
def test_a_hub_that_cannot_be_reached_is_tried_once(broken_hub, tmp_path, offline, called, why):
    address, calls = broken_hub
    here = {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": offline, "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "slalom_xai", "explain", "A text.", "--model", "owner/name"],
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot load a classifier from 'owner/name'")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    assert not [line for line in calls if "name" in line]  # the loaders did not try, and again
    assert len([line for line in calls if line.startswith("HEAD / ")]) == called


def test_models_of_other_libraries_say_what_to_give(tmp_path):
    (tmp_path / "model.Q4.gguf").touch()
    for given in (tmp_path, tmp_path / "model.Q4.gguf"):
        message = refusal(str(given))
        assert "llama.cpp (model.Q4.gguf)" in message
        assert "llama-server" in message
        with pytest.raises(ModelError, match="llama-server"):
            AnswerModel(given)
    (tmp_path / "model.pkl").touch()
    assert "is a file" in refusal(str(tmp_path / "model.pkl"))


class Encoder(torch.nn.Sequential):
    """Gives texts vectors, as a SentenceTransformer does."""

    def encode(self, texts):
        return [[float(len(text))] for text in texts]


class Pair(torch.nn.Module):
    """Holds a model and its tokenizer, as a CrossEncoder does."""

    def __init__(self):
        super().__init__()
        self.model, self.tokenizer = tiny("bert")


def test_modules_that_take_texts_say_what_to_pass():
    message = refusal(Encoder(torch.nn.Linear(1, 1)))
    assert "head.predict_proba(model.encode(texts))" in message
    assert "its .model and its .tokenizer" in refusal(Pair())
    assert Explainer(Pair().model, Pair().tokenizer)
