"""Time and memory, measured and printed: ``make bench``. Memory is asserted, time never is."""

import resource
import subprocess
import sys
import time

import pytest
import torch
from games import surrogate

from slalom_xai.methods.paper.shapley import shapley_values

pytestmark = pytest.mark.bench

LONG_TEXT = """
import resource, time
import torch, transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from slalom_xai import Explainer

torch.manual_seed(0)
vocabulary = {"[UNK]": 0} | {f"w{i}": i + 1 for i in range(500)}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
config = transformers.BertConfig(
    vocab_size=501,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=16,
    max_position_embeddings=4096,
)
model = transformers.BertForSequenceClassification(config).eval()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.time()
explanation = Explainer(model, tokenizer, budget=5000)(" ".join(f"w{i % 500}" for i in range(2000)))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds, above = time.time() - start, (peak - before) / 2**20
print(f"{explanation.calls} calls, {len(explanation)} units, {seconds:.0f} s")
print(f"peak {peak / 2**20:.2f} GiB ({above:.2f} above the model)")
assert peak < 4 * 2**20
"""


def test_5000_calls_on_2000_tokens_stay_within_4_gib():
    done = subprocess.run(
        [sys.executable, "-c", LONG_TEXT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sys.stdout.write("\n" + done.stdout)


def test_one_review_with_the_embedded_model():
    from slalom_xai import Explainer

    start = time.time()
    explainer = Explainer()
    loaded = time.time()
    text = " ".join(
        ["A slow start, but the two leads are wonderful and the music knows when to stop."] * 11
    )
    explanation = explainer(text)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = time.time() - loaded
    sys.stdout.write(
        f"\nloaded in {loaded - start:.1f} s; {len(explanation)} tokens, {explanation.calls} "
        f"calls, {seconds:.1f} s, peak {peak:.2f} GiB\n"
    )
    assert peak < 1.5


@pytest.mark.parametrize("units", [128, 512, 2000])
def test_shapley_values(units):
    known = surrogate(units)
    start = time.time()
    found = shapley_values(known)
    sys.stdout.write(f"\nexact Shapley values of {units} units: {time.time() - start:.2f} s\n")
    total = known.predict(torch.ones(1, units))[0] - known.empty()
    assert torch.allclose(found.sum(dim=0), total, atol=1e-6)
