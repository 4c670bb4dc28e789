"""The rows of a table: all of them come out, and those that cannot be explained say why."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slalom_xai.data.corpus.source import CorpusFields, open_source
from slalom_xai.data.corpus.staging import check_rows
from slalom_xai.errors import InputError

RECORDS = [{"name": "a", "text": "a fine film"}, {"name": "b", "text": "a dull film"}]


def rows(path, **fields):
    return list(open_source(path, CorpusFields(**fields)).rows())


def as_csv(path, records=RECORDS):
    lines = ["name,text", *(f'{record["name"]},"{record["text"]}"' for record in records)]
    path.write_text("\n".join(lines) + "\n")


def as_json_lines(path, records=RECORDS):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def as_packed(path, records=RECORDS):
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def as_parquet(path, records=RECORDS):
    pq.write_table(pa.Table.from_pylist(records), path)


def as_folder(path, records=RECORDS):
    path.mkdir()
    as_parquet(path / "1.parquet", records[:1])
    as_parquet(path / "2.parquet", records[1:])
    (path / "README.md").write_text("what this is")


def as_saved_dataset(path, records=RECORDS):
    """What ``Dataset.save_to_disk`` of Hugging Face's datasets writes."""
    path.mkdir()
    table = pa.Table.from_pylist(records)
    names = []
    for index, record in enumerate(records):
        names.append({"filename": f"data-{index:05d}-of-{len(records):05d}.arrow"})
        with pa.ipc.new_stream(path / names[-1]["filename"], table.schema) as writer:
            writer.write_table(pa.Table.from_pylist([record], schema=table.schema))
    (path / "state.json").write_text(json.dumps({"_data_files": names, "_split": "train"}))
    (path / "dataset_info.json").write_text("{}")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("t.csv", as_csv),
        ("t.jsonl", as_json_lines),
        ("t.jsonl.gz", as_packed),
        ("t.parquet", as_parquet),
        ("folder", as_folder),
        ("saved", as_saved_dataset),
    ],
)
def test_every_kind_of_table_is_read(tmp_path, name, write):
    write(tmp_path / name)
    found = rows(tmp_path / name, id="name")
    assert [(row.row, row.id, row.text, row.pair, row.problem) for row in found] == [
        (1, "a", "a fine film", None, None),
        (2, "b", "a dull film", None, None),
    ]
    assert [row.id for row in rows(tmp_path / name)] == ["1", "2"]


def test_rows_that_cannot_be_read_say_why_and_the_others_follow(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'{"name": 1, "text": "good"}\nnot json\n[1]\n{"name": 2}\n{"name": 3, "text": 7}\n'
        b'{"name": 4, "text": "caf\xe9"}\n{"text": "without an id"}\n{"name": 5, "text": "good"}\n'
    )
    found = rows(path, id="name")
    assert [row.id for row in found] == ["1", "", "", "2", "3", "4", "", "5"]
    problems = [row.problem for row in found]
    assert problems[0] is problems[-1] is None
    said = ["not JSON", "give a record", "no text", "the int '7'", "not UTF-8", "no id"]
    for problem, part in zip(problems[1:-1], said, strict=True):
        assert part in problem


def test_a_csv_row_of_another_width_or_encoding_does_not_take_others_with_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'text,other\ngood,1\ntoo,many,cells\n"caf\xe9",1\n"two\nlines",1\nfine,1\n')
    found = rows(path)
    assert [row.text for row in found] == ["good", "", "", "two\nlines", "fine"]
    assert "3 fields" in found[1].problem
    assert "not UTF-8" in found[2].problem


def test_ids_that_come_twice_are_named_with_their_rows(tmp_path):
    path = tmp_path / "t.csv"
    as_csv(path, [*RECORDS, {"name": "a", "text": "another"}])
    with pytest.raises(InputError, match=r"'a' in row 1 .* and row 3 .*: give every row"):
        check_rows(open_source(path, CorpusFields(id="name")))
    check_rows(open_source(path, CorpusFields()))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "folder without tables"),
        ({"a.csv": "text\nx\n", "b.jsonl": '{"text": "x"}\n'}, r"several kinds \(.csv, .jsonl\)"),
        ({"dataset_dict.json": '{"splits": ["test", "train"]}'}, r"several splits \(test, train\)"),
        ({"state.json": '{"_data_files": [], "_split": null}'}, "has no rows"),
        ({"state.json": "{"}, "cannot read .*state.json"),
        ({"state.json": '{"_indices_files": [1]}'}, "a selection of rows: call flatten_indices"),
        ({"state.json": '{"_data_files": [{"filename": "no.arrow"}]}'}, "no.arrow is damaged"),
    ],
)
def test_folders_that_cannot_be_read(tmp_path, files, said):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        open_source(tmp_path, CorpusFields())


def test_a_table_in_another_encoding_says_so(tmp_path):
    (tmp_path / "t.csv").write_bytes("text\na warm film\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"names that are no UTF-8: save it as UTF-8"):
        open_source(tmp_path / "t.csv", CorpusFields())


def test_a_missing_column_is_said_with_those_that_are_there(tmp_path):
    as_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"no column 'review', only 'name', 'text'"):
        open_source(tmp_path / "t.csv", CorpusFields(text="review"))
    (tmp_path / "header.csv").write_text("text\n")
    with pytest.raises(InputError, match=r"has no rows"):
        check_rows(open_source(tmp_path / "header.csv", CorpusFields()))
