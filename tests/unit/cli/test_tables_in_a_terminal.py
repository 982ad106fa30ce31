"""What commands print of names and reasons that anybody may choose."""

import pytest

from oncelog_server.cli.tables import say, show_fields, show_paragraph, show_table, warn

EVIL = "a\x1b[2J\nfake\x9b1A\x1b]0;owned\x07"
SHOWN = "a\\x1b[2J\\nfake\\x9b1A\\x1b]0;owned\\x07"


def in_rows_of_lines(text):
    show_table(["name", "reason"], [(text, "x" * 200)], empty="")


@pytest.mark.parametrize(
    "show",
    [
        lambda text: show_table(["name"], [(text,)], empty=""),
        in_rows_of_lines,
        lambda text: show_fields([("name", text)]),
        show_paragraph,
    ],
)
def test_a_name_moves_no_cursor_and_feigns_no_line(show, capsys):
    show(EVIL)
    printed = capsys.readouterr().out
    assert SHOWN in printed
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)


@pytest.mark.parametrize("tell", [say, warn])
def test_a_sentence_keeps_its_lines_and_moves_no_cursor(tell, capsys):
    tell("one\ntwo \x1b[2J")
    captured = capsys.readouterr()
    assert (captured.out or captured.err).splitlines() == ["one", "two \\x1b[2J"]
