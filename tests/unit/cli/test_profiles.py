"""Addresses by name: a file of profiles, and which of an option, a variable and a profile wins."""

import pytest

from oncelog_server.cli import run

ADDRESSES = {
    name: f"127.0.0.1:{port}" for port, name in enumerate(("option", "variable", "p", "q"), 1)
}


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "oncelog" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BOOTSTRAP", "CLIENT_CONFIG", "GATEWAY", "PROFILE", "PROFILES"):
        monkeypatch.delenv(f"ONCELOG_{name}", raising=False)
    for name in ("p", "q"):
        assert run(["profiles", "set", name, "--bootstrap", ADDRESSES[name]]) == 0
    return path


def address_shown(capsys, *arguments):
    """The address that a command would talk to: nobody listens at any of these, and its error names it."""
    capsys.readouterr()
    assert run([*arguments, "topics", "list"]) == 1
    said = capsys.readouterr().err
    return next((name for name, address in ADDRESSES.items() if f" {address} " in said), said)


def test_the_nearest_address_wins(file, capsys, monkeypatch):
    assert address_shown(capsys) == "p", "the first one that was made is the current one"
    assert run(["profiles", "use", "q"]) == 0
    assert address_shown(capsys) == "q"
    monkeypatch.setenv("ONCELOG_PROFILE", "p")
    assert address_shown(capsys) == "p"
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", ADDRESSES["variable"])
    assert address_shown(capsys) == "variable"
    assert address_shown(capsys, "--profile", "q") == "q", "what is typed wins over what was set"
    assert address_shown(capsys, "--profile", "q", "--bootstrap", ADDRESSES["option"]) == "option"


def test_profiles_are_listed_changed_and_deleted(file, capsys):
    assert file.stat().st_mode & 0o777 == 0o600
    assert run(["profiles", "set", "p", "--gateway", "http://q:1"]) == 0
    capsys.readouterr()
    assert run(["profiles", "list"]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("p "))
    assert line.split() == ["p", "*", ADDRESSES["p"], "http://q:1", "–", "–"]
    assert run(["profiles", "delete", "p"]) == 0
    assert run(["profiles", "use", "p"]) == 1
    assert "there is no profile 'p'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[profiles.p]\nbotstrap = 'x'",
            "[profiles.p] botstrap is not known (did you mean bootstrap?)",
        ),
        ("profil = 'p'", "profil is not known (did you mean profile"),
        ("[profiles.p]\nbootstrap = 1", "[profiles.p] is not a table of texts"),
        ("profile = ", ":1: not TOML"),
        ("profile = 'x'", "there is no profile 'x'"),
    ],
)
def test_a_file_that_says_something_else_is_refused(file, capsys, text, said):
    file.write_text(text)
    assert run(["topics", "list"]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert str(file) in error


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--bootstrap", "localhost", "is not an address"),
        ("--bootstrap", "localhost:70000", "is not an address"),
        ("--bootstrap", "localhost:\u00b2", "is not an address"),
        ("--gateway", "localhost:8080", "is not a URL"),
        ("--gateway", "http://[::1", "is not a URL"),
    ],
)
def test_an_address_that_can_be_none_is_not_kept(file, capsys, option, value, said):
    before = file.read_text()
    assert run(["profiles", "set", "p", option, value]) == 2
    assert said in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert file.read_text() == before


def test_who_does_not_answer_is_named_with_the_profile(file, capsys):
    assert run(["profiles", "set", "p", "--gateway", "http://127.0.0.1:2"]) == 0
    assert run(["topics", "list"]) == 1
    assert f"{ADDRESSES['p']} of profile p (" in capsys.readouterr().err
    assert run(["nodes", "list"]) == 1
    assert "http://127.0.0.1:2 of profile p (" in capsys.readouterr().err
    assert run(["topics", "list", "--bootstrap", ADDRESSES["option"]]) == 1
    assert "profile" not in capsys.readouterr().err


def test_a_misspelled_variable_is_refused_as_servers_do(file, capsys, monkeypatch):
    monkeypatch.setenv("ONCELOG_BOOTSTRP", "elsewhere:1")
    assert run(["topics", "list"]) == 1
    assert "did you mean ONCELOG_BOOTSTRAP?" in capsys.readouterr().err
    assert run(["nodes", "list"]) == 1
    assert "ONCELOG_BOOTSTRP" in capsys.readouterr().err
    assert run(["topics", "list", "--help"]) == 0


def test_a_line_that_is_no_toml_is_named(file, capsys):
    file.write_text("profile = 'p'\nnonsense\n")
    assert run(["topics", "list"]) == 1
    assert f"{file}:2: not TOML: " in capsys.readouterr().err
