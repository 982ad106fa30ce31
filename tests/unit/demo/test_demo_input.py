"""Files somebody brings: the formats are told apart by content, and what cannot be used is refused with the reason."""

import csv
import json

import pytest

from oncelog_server.demo.input_rows import UnreadableInput, read_table

ROWS = [
    {"city": "A", "count": 1, "miles": 1.5, "note": "x"},
    {"city": "B", "count": 2, "miles": None, "note": "1"},
]


def write(path, text):
    path.write_text(text)
    return path


def files(folder):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pylist(ROWS)
    for name, opener in (("file", arrow.ipc.new_file), ("stream", arrow.ipc.new_stream)):
        with opener(str(folder / f"arrow-{name}"), table.schema) as writer:
            writer.write_table(table)
    with (folder / "csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)
    write(folder / "lines", "\n".join(json.dumps(row) for row in ROWS) + "\n")
    write(folder / "array", json.dumps(ROWS, indent=1))
    return sorted(folder.iterdir())


def test_every_format_gives_the_same_table(tmp_path):
    tables = [read_table(path, "city") for path in files(tmp_path)]
    assert len(tables) == 5
    for table in tables:
        assert table.row_count == 2
        assert table.numeric_columns == ("count", "miles")
        assert table.columns["miles"] == [1.5, None]
        assert json.loads(table.value(1)) == {"row": 1, **ROWS[1]}
        assert table.key(1) == "B"


def test_a_numeric_key_is_a_key_and_is_not_summed(tmp_path):
    table = read_table(write(tmp_path / "f", "k,n\n7,1\n8,2\n"), "k")
    assert table.key(0) == "7"
    assert table.numeric_columns == ("n",)


def test_quoted_commas_and_lines_survive(tmp_path):
    table = read_table(write(tmp_path / "f", 'k,t\na,"x, ""y""\nz"\n'), "k")
    assert table.columns["t"] == ['x, "y"\nz']


def test_a_nan_is_missing_and_a_date_is_its_text(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"k": ["a"], "n": [float("nan")], "d": arrow.array([0], arrow.date32())})
    with arrow.ipc.new_file(str(tmp_path / "f"), table.schema) as writer:
        writer.write_table(table)
    read = read_table(tmp_path / "f", "k")
    assert read.columns["n"] == [None]
    assert read.columns["d"] == ["1970-01-01"]


def test_lines_may_lack_fields(tmp_path):
    table = read_table(write(tmp_path / "f", '{"k":"a"}\n\n{"k":"b","n":3}\n'), "k")
    assert table.columns == {"k": ["a", "b"], "n": [None, 3]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "first line"),
        ("k,n\n", "no rows"),
        ("a,b\n1,2\n", "no column 'k'; choose --key from its columns: a, b"),
        ("k,n\n1,2,3\n", "line 2 has 3 fields, not 2"),
        ("k,k\n1,2\n", "each column once"),
        ('[{"k":1}', "JSON"),
        ("[1, 2]", "item 0 is int, not an object"),
        ('{"k":1}\nnonsense\n', "JSON"),
        ("k,row\n1,2\n", "a column named 'row'"),
        ("\x00\x01\x02", "no column"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path, text, says):
    with pytest.raises(UnreadableInput, match=says):
        read_table(write(tmp_path / "f", text), "k")


def test_a_torn_arrow_file_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"ARROW1\0\0 and nothing")
    with pytest.raises(UnreadableInput, match="is not CSV"):
        read_table(tmp_path / "f", "k")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnreadableInput, match="No such file"):
        read_table(tmp_path / "none", "k")
