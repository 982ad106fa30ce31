"""An explanation as a terminal shows it."""

from oncelog_server.cli.explain import show_explanation

LONG = "oncelog transactions explain " + "x" * 300


def explanation(**more):
    given = {
        "verdict": "It is well.",
        "incident": "healthy",
        "findings": [],
        "next_commands": [],
        "unknown": [],
        "evidence": [],
    }
    return given | more


def test_a_name_of_control_characters_moves_no_cursor(capsys):
    show_explanation(explanation(verdict="'\x1b[2J\x07 gone'", findings=["a\rb"]))
    printed = capsys.readouterr().out
    assert "\\x1b[2J\\x07 gone" in printed
    assert "a\\rb" in printed
    assert not {"\x1b", "\x07", "\r"} & set(printed)


def test_a_command_stands_in_one_line_to_be_copied(capsys):
    show_explanation(
        explanation(next_commands=[{"command": LONG, "does": "explains", "is_safe": True}])
    )
    assert f"  {LONG}" in capsys.readouterr().out.splitlines()
