"""What a training starts from: a new model, or a pretrained one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModelForSequenceClassification

from slalom_xai.data.training.data import Prepared
from slalom_xai.data.training.options import LOOP, TrainingOptions
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.hub import GIVE_MODEL, load_quietly, load_tokenizer, locate_model

# A model and a tokenizer from scratch.


SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


# What the library calls the dropouts of each family, and the width of an encoder's inner layers.
_DROPOUTS = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"),
    "distilbert": ("dropout", "attention_dropout", "seq_classif_dropout"),
    "gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
}
_INNER = {"bert": "intermediate_size", "distilbert": "hidden_dim"}
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
    own = dict.fromkeys(_DROPOUTS[family], dropout)
    if family == "gpt2":
        own |= {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id}
    else:
        own[_INNER[family]] = 4 * width
    config = library.AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=_heads(width),
        max_position_embeddings=limit,
        **own,
    )
    name_classes(config, labels)
    return library.AutoModelForSequenceClassification.from_config(config)


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


# Loads what training starts from or learns from.


def load_start(
    name: str | Path,
    labels: Sequence[str],
    *,
    layers: int | None,
    revision: str | None,
    trust_remote_code: bool,
) -> tuple[Any, Any]:
    """A pretrained model with a classification head for the labels, in float32, and its tokenizer.

    Args:
        name: folder or hub id.
        labels: the classes.
        layers: keep only this many of the first layers.
        revision: commit, tag or branch.
        trust_remote_code: let it bring code of its own.

    Raises:
        ModelError: it cannot be loaded, or has no such layers.
    """
    source = locate_model(name)
    options = {"revision": revision, "trust_remote_code": bool(trust_remote_code)}
    with load_quietly("the model to start from", source, GIVE_MODEL) as hub:
        options |= hub
        config = AutoConfig.from_pretrained(source, **options)
        name_classes(config, labels)
        if layers is not None:
            _keep_layers(config, layers, source)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    tokenizer = load_tokenizer(source, revision=revision, trust_remote_code=trust_remote_code)
    model = model.float()
    sizes = {key: value.numel() for key, value in model.state_dict().items()}
    if sum(sizes.get(key, 0) for key in report["missing_keys"]) > sum(sizes.values()) / 2:
        raise ModelError(
            f"{source!r} holds only few of the weights of a {type(model).__name__}: "
            "give a folder saved with save_pretrained"
        )
    _check_fast(tokenizer, source)
    give_padding(model, tokenizer)
    return model, tokenizer


def load_teacher(
    name: str | Path, labels: Sequence[str], *, trust_remote_code: bool
) -> tuple[Any, Any, list[int]]:
    """A trained classifier in float32, its tokenizer, and where it has each of the labels.

    Raises:
        ModelError: it cannot be loaded, or knows other classes.
    """
    source = locate_model(name)
    options = {"trust_remote_code": bool(trust_remote_code)}
    with load_quietly("the teacher", source, GIVE_MODEL) as hub:
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, output_loading_info=True, **options, **hub
        )
    tokenizer = load_tokenizer(source, trust_remote_code=trust_remote_code)
    if report["missing_keys"]:
        raise ModelError(
            f"the teacher {source!r} has no trained classification head: "
            "give a classifier, such as one that slalom train made"
        )
    names = model.config.id2label
    known = [str(names[index]).casefold() for index in range(model.config.num_labels)]
    if sorted(known) != sorted(label.casefold() for label in labels):
        raise ModelError(
            f"the teacher {source!r} knows the classes {', '.join(map(str, names.values()))}, "
            f"but the table has {', '.join(labels)}: "
            "they must be the same; name numbered classes with --labels"
        )
    give_padding(model, tokenizer)
    return model.float(), tokenizer, [known.index(label.casefold()) for label in labels]


def give_padding(model: Any, tokenizer: Any) -> None:
    """Makes model and tokenizer agree on a padding token.

    Decoders find the end of a text by it, so one that the tokenizer adds to texts will not do. If
    there is no other token for it, the vocabulary grows by one.
    """
    if tokenizer.pad_token_id is None and getattr(model.config, "pad_token_id", None) in range(
        len(tokenizer)
    ):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.config.pad_token_id)
    if tokenizer.pad_token_id is None:
        added = tokenizer("a", verbose=False)["input_ids"]
        if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in added:
            tokenizer.pad_token = tokenizer.eos_token
        else:
            tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    if tokenizer.pad_token_id >= model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(tokenizer.pad_token_id + 1)
    model.config.pad_token_id = tokenizer.pad_token_id


def _keep_layers(config: Any, layers: int, source: str) -> None:
    """Shortens a configuration; the weights of the layers behind are then left unread."""
    there = getattr(config, "num_hidden_layers", None)
    if not isinstance(there, int) or getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"cannot keep the first {layers} layers of {source!r}, a {config.model_type} model: "
            "leave --layers out"
        )
    if layers > there:
        raise ModelError(
            f"--layers is {layers}, but {source!r} has {there} layers: give at most {there}"
        )
    for key, value in list(vars(config).items()):
        # Lists with one entry per layer, such as its kind of attention.
        if isinstance(value, list) and len(value) == there and "layer" in key:
            setattr(config, key, value[:layers])
    config.num_hidden_layers = layers


def _check_fast(tokenizer: Any, source: str) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer of {source!r} does not report where its tokens stand, "
            "so its model could not be explained: give another model"
        )


# What a training starts from: a new model, or a pretrained one.


def starting_model(prepared: Prepared, options: TrainingOptions) -> tuple[Any, Any]:
    """The model before training, and its tokenizer.

    Args:
        prepared: a new tokenizer is made from its training texts.
        options: settled ones.
    """
    if options.init is not None:
        return load_start(
            options.init,
            prepared.classes.names,
            layers=options.layers,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
        )
    return _new(prepared, options)


def _new(prepared: Prepared, options: TrainingOptions) -> tuple[Any, Any]:
    """A model with random weights and a tokenizer of the training texts."""
    # ``resolve`` has filled these in.
    assert options.max_length is not None
    assert options.family is not None
    assert options.vocabulary is not None
    assert options.layers is not None
    assert options.width is not None
    dropout = LOOP.dropout
    if options.teacher is not None:
        dropout = LOOP.dropout_with_teacher
    texts = prepared.training.texts + (prepared.training.pairs or ())
    tokenizer = new_tokenizer(
        texts,
        vocabulary=options.vocabulary,
        limit=options.max_length,
        family=options.family,
    )
    model = new_model(
        tokenizer,
        family=options.family,
        layers=options.layers,
        width=options.width,
        limit=options.max_length,
        dropout=dropout,
        labels=prepared.classes.names,
    )
    return model, tokenizer
