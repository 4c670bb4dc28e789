"""A model and a tokenizer from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from slalom_xai.errors import InputError

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


_LEAST_LETTERS = 32  # kept whatever the size of the vocabulary: an alphabet and some marks


def new_tokenizer(texts: Sequence[str], *, vocabulary: int, limit: int, family: str) -> Any:
    """An uncased WordPiece tokenizer of the texts' own words.

    Args:
        texts: what the words are taken from.
        vocabulary: tokens at most, the five special ones included.
        limit: tokens the model reads.
        family: bert also gets the segments of pairs.
    """
    # Each letter may need two tokens, at the start of a word and inside.
    letters = _letters(texts, most=max(_LEAST_LETTERS, vocabulary // 3))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        # Letters inside words get their numbers here: the trainer would give them out in another
        # order each time.
        special_tokens=[*SPECIAL_TOKENS.values(), *(f"##{letter}" for letter in letters)],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        min_frequency=2,
        show_progress=False,
    )
    school = _backend({})
    school.train_from_iterator(texts, trainer)
    backend = _backend(school.get_vocab())
    put_frame(backend)
    library: Any = import_module("transformers")
    return library.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=limit,
        model_input_names=model_inputs(family),
        **SPECIAL_TOKENS,
    )


def put_frame(backend: Any) -> None:
    """Puts [CLS] and [SEP] around texts, and [SEP] between the two of a pair."""
    frame = [(name, backend.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=frame
    )


def model_inputs(family: str) -> list[str]:
    """What a tokenizer makes for a model."""
    if family == "bert":
        return ["input_ids", "token_type_ids", "attention_mask"]
    return ["input_ids", "attention_mask"]


def _backend(vocabulary: dict[str, int]) -> Any:
    backend: Any = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend


def _letters(texts: Sequence[str], most: int) -> list[str]:
    """The commonest characters of the texts, sorted."""
    clean = normalizers.BertNormalizer(lowercase=True)
    counts = Counter(
        letter for text in texts for letter in clean.normalize_str(text) if not letter.isspace()
    )
    return sorted(sorted(counts, key=lambda letter: (-counts[letter], letter))[:most])


def new_model(
    tokenizer: Any,
    *,
    family: str,
    layers: int,
    width: int,
    limit: int,
    dropout: float,
    labels: Sequence[str],
) -> Any:
    """A classifier with random weights: an encoder (bert, distilbert) or a decoder (gpt2).

    Raises:
        InputError: a width that cannot be shared among heads.
    """
    library: Any = import_module("transformers")
    if family == "bert":
        config = _bert_config(tokenizer, layers, width, limit, dropout)
        name_classes(config, labels)
        return library.BertForSequenceClassification(config)
    if family == "distilbert":
        config = _distilbert_config(tokenizer, layers, width, limit, dropout)
        name_classes(config, labels)
        return library.DistilBertForSequenceClassification(config)
    config = _gpt2_config(tokenizer, layers, width, limit, dropout)
    name_classes(config, labels)
    return library.GPT2ForSequenceClassification(config)


def _bert_config(tokenizer: Any, layers: int, width: int, limit: int, dropout: float) -> Any:
    library: Any = import_module("transformers")
    return library.BertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=_heads(width),
        intermediate_size=4 * width,
        max_position_embeddings=limit,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        classifier_dropout=dropout,
    )


def _distilbert_config(tokenizer: Any, layers: int, width: int, limit: int, dropout: float) -> Any:
    library: Any = import_module("transformers")
    return library.DistilBertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        dim=width,
        n_layers=layers,
        n_heads=_heads(width),
        hidden_dim=4 * width,
        max_position_embeddings=limit,
        dropout=dropout,
        attention_dropout=dropout,
        seq_classif_dropout=dropout,
    )


def _gpt2_config(tokenizer: Any, layers: int, width: int, limit: int, dropout: float) -> Any:
    library: Any = import_module("transformers")
    return library.GPT2Config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        n_embd=width,
        n_layer=layers,
        n_head=_heads(width),
        n_positions=limit,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
    )


def name_classes(config: Any, labels: Sequence[str]) -> None:
    """Makes a configuration that of a classifier of these classes."""
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    config.problem_type = "single_label_classification"


def _heads(width: int) -> int:
    """As many heads as share the width evenly, 64 numbers each, or four of a small width."""
    wanted = max(4, width // 64)
    heads = next(count for count in range(wanted, 0, -1) if width % count == 0)
    if heads == 1:
        raise InputError(
            f"--width is {width}, which attention heads cannot share evenly: "
            f"give a multiple of 4, such as {4 * (width // 4)}"
        )
    return heads
