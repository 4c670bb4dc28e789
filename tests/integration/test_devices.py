"""Half precision, and CUDA where there is one."""

import numpy as np
import pytest
import torch
from tiny import TEXT, tiny

from slalom_xai import Explainer
from slalom_xai.errors import ModelError
from slalom_xai.methods.process import pack_rows, unpack_rows

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
PLACES = [
    ("cpu", "float16"),
    pytest.param("cuda", "float32", marks=needs_cuda),
    pytest.param("cuda", "bfloat16", marks=needs_cuda),
    pytest.param("cuda", "float16", marks=needs_cuda),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("saved")
    for part in tiny("distilbert"):
        part.save_pretrained(place)
    return str(place)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_a_model_answers_much_the_same_in_any_precision(folder, device, dtype):
    explainer = Explainer(folder, device=device, dtype=dtype, budget=300)
    assert explainer.model.device.type == device
    explanation, exact = explainer(TEXT), Explainer(folder, device="cpu", budget=300)(TEXT)
    relative, agreement = {
        "float32": (1e-4, 0.9999),
        "float16": (1e-2, 0.99),
        "bfloat16": (5e-2, 0.8),
    }[dtype]
    assert explanation.prediction == pytest.approx(exact.prediction, rel=relative)
    rows = np.random.default_rng(0).random((50, len(exact))) < 0.7
    assert np.corrcoef(explanation.predict(rows), exact.predict(rows))[0, 1] > agreement
    assert explanation.function.values.device.type == "cpu"


@needs_cuda
def test_rows_lose_no_bits_when_they_are_packed_on_cuda():
    rows = (torch.rand(200, 130, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    packed = pack_rows(rows.cuda())
    assert torch.equal(packed.cpu(), pack_rows(rows))
    assert torch.equal(unpack_rows(packed, 130).cpu(), rows)


@needs_cuda
@pytest.mark.parametrize(
    "method", ["slalom", "linear", "slalom-eff", "slalom-fidel", "slalom-exact"]
)
def test_every_method_finds_much_the_same_on_cuda(folder, method):
    there, here = (
        Explainer(folder, device=device, method=method, budget=300)(TEXT)
        for device in ("cuda", "cpu")
    )
    assert there.prediction == pytest.approx(here.prediction, rel=1e-2)
    assert there.calls == here.calls
    rows = np.random.default_rng(0).random((50, len(here))) < 0.7
    # Matrices are multiplied in TF32, which rounds as float16 does; fits amplify that.
    assert np.corrcoef(there.predict(rows), here.predict(rows))[0, 1] > 0.98


@needs_cuda
@pytest.mark.parametrize("architecture", ["bert", "gpt2", "t5", "xlnet"])
def test_model_objects_stay_on_their_device(architecture):
    model, tokenizer = tiny(architecture)
    on_cpu = Explainer(model, tokenizer, budget=300)(TEXT)
    try:
        model.to("cuda")
        on_cuda = Explainer(model, tokenizer, budget=300)(TEXT)
        assert next(model.parameters()).device.type == "cuda"
    finally:
        model.to("cpu")
    assert on_cuda.prediction == pytest.approx(on_cpu.prediction, abs=1e-2)
    assert [unit.text for unit in on_cuda.units] == [unit.text for unit in on_cpu.units]
    rows = np.random.default_rng(0).random((50, len(on_cpu))) < 0.7
    assert np.corrcoef(on_cuda.predict(rows), on_cpu.predict(rows))[0, 1] > 0.98


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_line(folder):
    with pytest.raises(ModelError, match=r"cannot put .* on cuda: .*pass device='cpu'") as caught:
        Explainer(folder, device="cuda")
    assert "\n" not in str(caught.value)
