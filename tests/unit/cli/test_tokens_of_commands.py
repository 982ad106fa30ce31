"""Which token a command shows to which gateway, and what it makes of a refusal."""

import pytest
import typer

from oncelog_server.cli import run
from oncelog_server.cli.tokens import lifetime_ms


def file_of(tmp_path, token):
    path = tmp_path / f"{token}.txt"
    path.write_text(f"{token}\n")
    return str(path)


def shown(gateway, *arguments):
    """The token of the last request."""
    assert run([*arguments, "features", "list"]) == 0
    return gateway.seen[-1].get("Authorization", "")


def test_the_nearest_token_wins(gateway, tmp_path, monkeypatch):
    for name in ("p", "q"):
        token = file_of(tmp_path, name)
        values = ["--gateway", gateway.url, "--token-file", token]
        assert run(["profiles", "set", name, *values]) == 0
    assert shown(gateway) == "Bearer p", "the first one that was made is the current one"
    monkeypatch.setenv("ONCELOG_TOKEN_FILE", file_of(tmp_path, "file"))
    assert shown(gateway) == "Bearer file"
    monkeypatch.setenv("ONCELOG_TOKEN", "variable\n")
    assert shown(gateway) == "Bearer variable"
    assert shown(gateway, "--profile", "q") == "Bearer q", "what is typed wins over what was set"
    option = file_of(tmp_path, "option")
    assert shown(gateway, "--profile", "q", "--token-file", option) == "Bearer option"


def test_a_profiles_token_goes_to_its_gateway_alone(gateway, tmp_path):
    values = ["--gateway", "http://127.0.0.1:1", "--token-file", file_of(tmp_path, "p")]
    assert run(["profiles", "set", "p", *values]) == 0
    assert shown(gateway, "--gateway", gateway.url) == ""


def test_no_redirect_is_followed(gateway, tmp_path, capsys):
    gateway.answer = (302, {}, {"Location": f"{gateway.url}/elsewhere"})
    assert run(["--gateway", gateway.url, "features", "list"]) == 1
    assert len(gateway.seen) == 1
    assert "302" in capsys.readouterr().err


def test_a_refusal_says_how_to_give_a_token(gateway, capsys):
    gateway.answer = (401, {"detail": "this needs a token"}, {})
    assert run(["--gateway", gateway.url, "features", "list"]) == 1
    assert "this needs a token; give it with --token-file, ONCELOG_TOKEN" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "two words", "é"])
def test_a_file_without_a_token_is_named(gateway, tmp_path, capsys, content):
    path = tmp_path / "wrong"
    path.write_text(content)
    assert run(["--gateway", gateway.url, "--token-file", str(path), "features", "list"]) == 1
    assert f"{path} holds no token" in capsys.readouterr().err
    assert not gateway.seen


def test_a_reason_goes_along(gateway, monkeypatch):
    assert run(["--gateway", gateway.url, "--reason", "ticket 7 ✓", "features", "list"]) == 0
    assert gateway.seen[-1]["Oncelog-Reason"] == "ticket%207%20%E2%9C%93"
    assert run(["--gateway", gateway.url, "features", "list"]) == 0
    assert gateway.seen[-1]["Oncelog-Reason"] is None


def test_a_new_token_stands_alone_on_stdout(gateway, capsys):
    made = {"token": "oncelog_x", "expires_time_ms": 1_800_000_000_000}
    gateway.answer = (201, made, {})
    arguments = ["tokens", "create", "ci", "--role", "viewer", "--expires", "12h"]
    assert run(["--gateway", gateway.url, *arguments]) == 0
    output = capsys.readouterr()
    assert output.out == "oncelog_x\n"
    assert "not shown again" in output.err


@pytest.mark.parametrize(
    ("text", "ms"), [("30d", 2_592_000_000), ("12h", 43_200_000), ("1m", 60_000)]
)
def test_a_lifetime_has_a_unit(text, ms):
    assert lifetime_ms(text) == ms


@pytest.mark.parametrize("text", ["", "30", "0d", "-1d", "1y", "1.5h", "٣d"])
def test_what_is_no_lifetime_is_refused(text):
    with pytest.raises(typer.BadParameter, match="30d"):
        lifetime_ms(text)
