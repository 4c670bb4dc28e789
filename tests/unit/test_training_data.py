"""Tables become examples, or one clear line."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import zipfile

import pytest

from slalom_xai.data.tables import read_table
from slalom_xai.data.tables.examples import Fields, read_examples
from slalom_xai.data.training.data import ordered_classes, prepare, split
from slalom_xai.data.training.options import TrainingOptions
from slalom_xai.errors import InputError

ROWS = [
    {"text": 'a "fine", film', "label": "good"},
    {"text": "dull\nand long", "label": "bad"},
    {"text": "null", "label": "good"},
]
TEXTS = tuple(row["text"] for row in ROWS)
CSV = 'text,label\n"a ""fine"", film",good\n"dull\nand long",bad\nnull,good\n'
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def examples(path, **fields):
    return read_examples(read_table(path), Fields(**fields))


def written(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.CSV", "\ufeff" + CSV.replace("text,", "text ,") + "\n\n"),
        (
            "a.tsv",
            CSV.replace(",good", "\tgood").replace(",bad", "\tbad").replace("text,", "text\t"),
        ),
        ("a.jsonl", LINES),
        ("a.ndjson", LINES + "\n"),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("a.json", LINES),
    ],
)
def test_every_text_format_gives_the_same_examples(tmp_path, name, content):
    found = examples(written(tmp_path, content, name))
    assert found.texts == TEXTS
    assert found.labels == ("good", "bad", "good")
    assert found.pairs is None


def test_lines_may_end_as_they_did_on_old_macs(tmp_path):
    assert examples(written(tmp_path, "text,label\rfine,good\rdull,bad\r")).labels == (
        "good",
        "bad",
    )


def test_packed_files_are_unpacked(tmp_path):
    raw = LINES.encode()
    for ending, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        path = tmp_path / f"a.jsonl{ending}"
        path.write_bytes(pack(raw))
        assert examples(path).texts == TEXTS
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
    assert examples(tmp_path / "a.csv.zip").texts == TEXTS


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    pd.DataFrame(ROWS).assign(label=[1.0, 0.0, 1.0]).to_parquet(tmp_path / "a.parquet")
    found = examples(tmp_path / "a.parquet")
    assert found.texts == TEXTS
    assert found.labels == ("1", "0", "1")
    pd.DataFrame(ROWS).assign(label=[1, None, 1]).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"1 rows without a label in column 'label', row 2:"):
        examples(tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match="damaged or not a Parquet file"):
        examples(tmp_path / "c.parquet")


def test_parquet_without_pyarrow_names_the_package(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\nfrom slalom_xai.data.tables import read_table\n"
        "from slalom_xai.errors import InputError\n"
        "try:\n    read_table(Path(sys.argv[1]))\n"
        "except InputError as error:\n    sys.exit('pip install pyarrow' not in str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.parquet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_tsv_without_quoting_may_hold_quotes(tmp_path):
    found = examples(written(tmp_path, 'text\tlabel\n"Fine" film\tgood\n"dull\tbad\n', "a.tsv"))
    assert found.texts == ('"Fine" film', '"dull')


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", CSV, r"unknown kind of table 'a.xlsx': give a file that ends in .csv"),
        ("a.parquet.gz", CSV, "unknown kind of table"),
        ("a.csv", "", r"a.csv is empty"),
        ("a.csv", "text,label\n", r"a.csv has no rows"),
        ("a.jsonl", "\n", r"a.jsonl has no column 'text' and no column 'label', only none at all"),
        (
            "a.csv",
            "review,stars\nfine,1\n",
            r"no column 'text' and no column 'label', only 'review', 'stars': "
            r".*--text COLUMN and --label",
        ),
        (
            "a.csv",
            "text;label\nfine;1\n",
            r"only 'text;label': its columns are not separated by commas",
        ),
        ("a.csv", "text,text,label\na,b,1\n", r"2 columns called 'text'"),
        (
            "a.csv",
            "text,label\nfine, warm,good\n",
            r"line 2 of .* has 3 fields, but the first line names 2 columns",
        ),
        ("a.csv", 'text,label\n"fine,good\ndull,bad\n', r"begins on line 2; put quotes"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', r"cannot read line 2 of .*not JSON"),
        ("a.jsonl", '"just a string"\n', r"line 1 of .* give a record like"),
        ("a.json", "[1, 2]", r"row 1 of .* is '1'"),
        ("a.jsonl.gz", LINES, r"damaged or not a gz file"),
        ("a.csv.zip", CSV, r"damaged or not a zip file"),
    ],
)
def test_a_file_that_cannot_be_read_is_explained_in_one_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message) as caught:
        examples(written(tmp_path, content, name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\nfine,good\n ,bad\n,bad\n", r"2 empty texts in column 'text', lines 3, 4:"),
        (
            'text,label\n"fine\nfilm",good\nlong,\n',
            r"1 rows without a label in column 'label', line 4:",
        ),
        (
            "text,label\n" + "a film,\n" * 7,
            r"7 rows without a label in column 'label', lines 2, 3, 4, 5, 6, \.\.\.:",
        ),
        (
            "text,label\nfine,0.5\ndull,1\n",
            r"not classes: line 2 has 0.5; give names or whole numbers",
        ),
        ("text,label\n12,good\n3.5,bad\n", r"column 'text' of .* holds numbers only, such as '12'"),
    ],
)
def test_rows_that_cannot_be_used_are_counted_and_placed(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        examples(written(tmp_path, content))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": 3, "label": "good"}, r"should hold texts, but holds the int '3' in line 2"),
        ({"text": None, "label": "good"}, r"1 empty texts in column 'text', line 2"),
        ({"text": "fine", "label": None}, r"1 rows without a label .* line 2"),
        ({"text": "fine"}, r"1 rows without a label .* line 2"),
        (
            {"text": "fine", "label": ["a", "b"]},
            r"holds a list in line 2: give one class for each row",
        ),
    ],
)
def test_records_that_cannot_be_used(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        examples(written(tmp_path, json.dumps(ROWS[0]) + "\n" + json.dumps(row), "a.jsonl"))


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "a.csv").write_bytes(b"text,label\n\xff,1\n")
    with pytest.raises(InputError, match=r"line 2 of .*a\.csv is not UTF-8"):
        read_table(tmp_path / "a.csv")
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    with pytest.raises(InputError, match="holds 2 files"):
        read_table(tmp_path / "a.csv.zip")


def test_a_pair_column_is_read_and_must_be_there(tmp_path):
    path = written(tmp_path, "text,second,label\na b,c d,1\ne f,g h,0\n")
    assert examples(path, pair="second").pairs == ("c d", "g h")
    with pytest.raises(
        InputError, match=r"no column 'third', only 'text', 'second', 'label': .*--pair COLUMN"
    ):
        examples(path, pair="third")


def classes_of(tmp_path, labels, names=None):
    found = examples(
        written(tmp_path, "text,label\n" + "".join(f"a film,{label}\n" for label in labels))
    )
    return ordered_classes(found, names, "table.csv")


def test_classes_are_sorted_numbers_by_size(tmp_path):
    assert classes_of(tmp_path, ["10", "9", "-1"]).keys == ("-1", "9", "10")
    assert classes_of(tmp_path, ["1.0", "0"]).keys == ("0", "1")
    assert classes_of(tmp_path, ["b", " a", "10"]).keys == ("10", "a", "b")


def test_names_order_named_classes_and_name_numbered_ones(tmp_path):
    assert classes_of(tmp_path, ["pos", "neg"], ("pos", "neg")).keys == ("pos", "neg")
    assert classes_of(tmp_path, ["1", "0"], ("negative", "positive")).names == (
        "negative",
        "positive",
    )
    for labels, names, message in (
        (["0", "1"], ("a", "b", "c"), r"3 names, but table.csv has 2 classes, '0', '1'"),
        (["x", "y"], ("a", "b"), r"the classes of table.csv are 'x', 'y'"),
        (["x", "y"], ("x", "x"), r"give each class its own name"),
        (["x", "x"], None, r"all 2 rows of table.csv have the label 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            classes_of(tmp_path, labels, names)


def test_the_split_keeps_the_shares_of_the_classes(tmp_path):
    labels = ["a"] * 80 + ["b"] * 20 + ["c"] * 2
    found = examples(
        written(
            tmp_path,
            "text,label\n" + "".join(f"film {i},{label}\n" for i, label in enumerate(labels)),
        )
    )
    kept, aside = split(found, 0.1, seed=0)
    assert [aside.labels.count(label) for label in "abc"] == [8, 2, 1]
    assert sorted(kept.texts + aside.texts) == sorted(found.texts)
    assert split(found, 0.1, seed=0) == (kept, aside)
    assert split(found, 0.1, seed=1) != (kept, aside)
    with pytest.raises(InputError, match=r"class 'c' has only 1 row"):
        split(found.chosen(range(101)), 0.1, seed=0)


def test_other_tables_must_have_the_classes_of_the_first(tmp_path):
    path = written(tmp_path, "text,label\n" + "a film,0\na song,1\n" * 3)
    other = written(tmp_path, "text,label\na book,2\na film,0\n", "other.csv")
    for name in ("validation", "test"):
        with pytest.raises(
            InputError,
            match=r"1 rows of .*other.csv have labels that the training table does not have, "
            r"'2': .* '0', '1'",
        ):
            prepare(path, TrainingOptions(**{name: other}).resolve())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "huge"}, "unknown size 'huge': choose one of tiny, small, base"),
        ({"family": "t5"}, "unknown family 't5': choose one of bert, distilbert, gpt2"),
        ({"epochs": 0}, "--epochs is 0: give a whole number of at least 1"),
        ({"max_length": 2}, "--max-length is 2"),
        ({"rate": -1.0}, "--rate is -1.0"),
        ({"rate": float("nan")}, "--rate is nan"),
        ({"holdout": 1.5}, "--holdout is 1.5"),
        ({"init": "x", "size": "tiny"}, "--size is only for a model from scratch"),
        ({"init": "x", "vocabulary": 100}, "--vocabulary is only for a model from scratch"),
        ({"revision": "main"}, "--revision was given without --init"),
        ({"parts": 2}, "--parts was given without --teacher"),
        ({"holdout": 0.1, "validation": "v.csv"}, "leave one of them out"),
        ({"pair": "text"}, "both name the column 'text'"),
    ],
)
def test_options_out_of_range_or_company(options, message):
    with pytest.raises(InputError, match=message):
        TrainingOptions(**options).resolve()


def test_defaults_depend_on_what_is_done():
    assert TrainingOptions().resolve().layers == 2
    assert TrainingOptions(size="base", layers=2).resolve().width == 512
    assert TrainingOptions(init="x").resolve().epochs == 3
    assert TrainingOptions(init="x").resolve().layers is None
    assert TrainingOptions(teacher="x").resolve().parts == 4
    assert TrainingOptions(teacher="x", parts=0).resolve().parts == 0
