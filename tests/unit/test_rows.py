"""Rows as tables spell out what rows written by hand do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny

from slalom_xai.models import prompt
from slalom_xai.models.rows import WrittenTokens
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.tokens import Tokens

CPU = torch.device("cpu")
TEXT = "the film is good, the film is not bad and the cast is good"


def reading(pair=False, removal="delete", text=TEXT):
    tokens = Tokens(tiny("bert")[1], limit=None, segments=2)
    return tokens.read(text, "a good cast" if pair else None, removal=removal)


def spelled(reading, pieces, filler=None):
    """A row written by hand: [CLS] text [SEP] and, where there is a pair, second text [SEP]."""
    pieces = list(pieces)
    tokenizer = tiny("bert")[1]
    ids, segments = [tokenizer.cls_token_id], [0]
    for part in range(len(reading.texts)):
        for piece, kept in pieces:
            if reading.pieces[piece].part == part and (kept or filler is not None):
                ids.append(reading.pieces[piece].token_ids[0] if kept else filler)
                segments.append(part)
        ids.append(tokenizer.sep_token_id)
        segments.append(part)
    return tuple(ids), tuple(segments)


def masks_for(units, seed, rows=40):
    return np.random.default_rng(seed).random((rows, units)) < 0.6


@pytest.mark.parametrize("granularity", ["token", "type", "word", "phrase"])
@pytest.mark.parametrize("removal", ["delete", "mask"])
@pytest.mark.parametrize("pair", [False, True])
def test_kept_rows_are_those_of_single_masks_and_keys_tell_them_apart(granularity, removal, pair):
    question = prompt(reading(pair, removal), granularity)
    masks = masks_for(len(question.units), 0)
    rows = question.rows(masks)
    filler = tiny("bert")[1].mask_token_id if removal == "mask" else None
    single = [
        spelled(question.reading, enumerate(mask[question.owner].tolist()), filler)
        for mask in masks
    ]
    assert [question.row(mask) for mask in masks] == single
    assert [rows.row(place) for place in range(len(masks))] == single
    assert rows.sizes.tolist() == [len(row[0]) for row in single]
    keys = rows.keys
    for one in range(len(masks)):
        for other in range(len(masks)):
            assert (keys[one] == keys[other]) == (single[one] == single[other])


@pytest.mark.parametrize("granularity", ["token", "word"])
@pytest.mark.parametrize("pair", [False, True])
def test_written_rows_are_those_of_single_sequences(granularity, pair):
    question = prompt(reading(pair), granularity)
    rng = np.random.default_rng(1)
    units = rng.integers(len(question.units), size=(50, 4))
    units[::3, 2:] = -1
    rows = question.sequences(units)
    for place, row in enumerate(units):
        pieces = np.concatenate([question.spelling[unit] for unit in row if unit >= 0])
        written = spelled(question.reading, [(piece, True) for piece in pieces.tolist()])
        assert rows.row(place) == written
        assert question.reading.compose(pieces) == written


def test_a_deletion_and_a_sequence_that_read_the_same_have_one_key():
    question = prompt(reading(), "token")
    places = np.array([[0, 1], [2, 5]])
    masks = np.zeros((2, len(question.units)), dtype=bool)
    masks[[[0], [1]], places] = True
    assert question.keys(masks).tolist() == question.sequences(places).keys.tolist()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    side=st.sampled_from(["left", "right"]),
    pair=st.booleans(),
    removal=st.sampled_from(["delete", "unk"]),
    written=st.booleans(),
)
def test_inputs_are_the_rows_with_padding_on_one_side(seed, side, pair, removal, written):
    first, second = (
        prompt(reading(pair, removal), "token"),
        prompt(reading(pair, text="a bad film"), "token"),
    )
    parts = [
        question.rows(masks_for(len(question.units), seed, rows=5)) for question in (first, second)
    ]
    if written:  # rows of another form; without them, all texts are put into one table
        parts.append(first.sequences(np.array([[0, 1, 0]])))
    batch = TokenBatch(parts)
    inputs = batch.inputs(7, side, CPU)
    expected = TokenBatch(
        [WrittenTokens.of([batch.row(place) for place in range(len(batch))])]
    ).inputs(7, side, CPU)
    for place in range(len(batch)):
        row, mask = batch.row(place), inputs["attention_mask"][place].bool()
        assert tuple(inputs["input_ids"][place][mask].tolist()) == row[0]
        assert tuple(inputs["token_type_ids"][place][mask].tolist()) == row[1]
        assert (inputs["input_ids"][place][~mask] == 7).all()
        padding = (~mask).nonzero().flatten().tolist()
        assert padding == (
            list(range(len(padding)))
            if side == "left"
            else list(range(len(mask) - len(padding), len(mask)))
        )
    assert all(torch.equal(inputs[name], expected[name]) for name in inputs)


def test_some_of_a_batch_are_the_same_rows():
    question = prompt(reading(), "token")
    batch = TokenBatch(
        [question.rows(masks_for(len(question.units), seed, rows=6)) for seed in (3, 4)]
    )
    places = np.array([1, 4, 7, 11])
    some = batch.take(places)
    assert [some.row(place) for place in range(4)] == [batch.row(place) for place in places]


@pytest.mark.parametrize("removal", ["delete", "mask"])
def test_rows_share_the_tokens_before_the_first_that_is_gone(removal):
    question = prompt(reading(removal=removal), "token")
    masks = masks_for(len(question.units), 5)
    masks[0] = True
    whole = question.row(masks[0])[0]
    expected = [
        1 + int((~mask).argmax()) if not mask.all() else len(whole) for mask in masks
    ]  # behind [CLS]
    assert question.rows(masks).shared.tolist() == expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_replaced_tokens_of_texts_of_unequal_length_share_a_batch(side):
    questions = [prompt(reading(removal="mask", text=text), "token") for text in (TEXT, "a film")]
    batch = TokenBatch([question.rows(masks_for(len(question.units), 0)) for question in questions])
    inputs = batch.inputs(7, side, CPU)
    for place in (0, 39, 40, 79):
        mask = inputs["attention_mask"][place].bool()
        assert tuple(inputs["input_ids"][place][mask].tolist()) == batch.row(place)[0]
        assert (inputs["input_ids"][place][~mask] == 7).all()
