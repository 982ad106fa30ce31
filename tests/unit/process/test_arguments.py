"""Settings of a process: flags, environment, defaults, and one line for what cannot be."""

from enum import StrEnum
from pathlib import Path

import pytest
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelog.process.arguments import SettingsParser, WrongUse


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class PlaceSettings(BaseSettings):
    """Where it is."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_PLACE_", frozen=True)

    data_dir: Path = Field(Path("data"), description="folder of what lasts")
    port: int = Field(9090, ge=0, le=65535, description="port to bind")


class TasteSettings(BaseSettings):
    """What it likes."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_TASTE_", frozen=True)

    colour: Colour = Field(Colour.RED, description="at most 100 % of it")
    is_loud: bool = Field(False, description="whether it says so")
    name: str = Field(description="who it is")


def read(*arguments):
    found = SettingsParser("oncelog_thing", "A thing.", [PlaceSettings, TasteSettings]).read(
        ["--taste-name", "x", *arguments]
    )
    return found[PlaceSettings], found[TasteSettings]


def refusal(*arguments):
    with pytest.raises(WrongUse) as refused:
        read(*arguments)
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_defaults_hold_until_something_is_said():
    place, taste = read()
    assert (place.data_dir, place.port) == (Path("data"), 9090)
    assert (taste.colour, taste.is_loud) == (Colour.RED, False)


def test_a_flag_wins_over_the_environment_and_that_over_defaults(monkeypatch):
    monkeypatch.setenv("ONCELOG_PLACE_PORT", "1")
    monkeypatch.setenv("ONCELOG_TASTE_COLOUR", "blue")
    place, taste = read("--place-port", "2", "--taste-is-loud", "true")
    assert (place.port, taste.colour, taste.is_loud) == (2, Colour.BLUE, True)


@pytest.mark.parametrize("value", ["many", "70000", "-1", ""])
def test_a_wrong_flag_is_named_with_its_value_and_the_way_out(value):
    text = refusal(f"--place-port={value}")
    assert f"--place-port={value!r}" in text
    assert "ONCELOG_PLACE_PORT" in text
    assert "docs/settings.md" in text


def test_a_wrong_variable_is_named_as_the_variable(monkeypatch):
    monkeypatch.setenv("ONCELOG_TASTE_COLOUR", "green")
    text = refusal()
    assert "ONCELOG_TASTE_COLOUR='green'" in text
    assert "--taste-colour" in text


def test_a_missing_value_is_asked_for():
    with pytest.raises(WrongUse, match=r"--taste-name is missing.*ONCELOG_TASTE_NAME"):
        SettingsParser("oncelog_thing", "A thing.", [TasteSettings]).read([])


@pytest.mark.parametrize("arguments", [["--colour", "red"], ["extra"], ["--place-port"]])
def test_what_is_no_flag_is_refused(arguments):
    assert "--help" in refusal(*arguments)


def test_help_lists_each_settings_unit_default_and_variable(capsys):
    with pytest.raises(SystemExit) as ended:
        read("--help")
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "--place-data-dir PATH folder of what lasts [default: data] [ONCELOG_PLACE_DATA_DIR]",
        "--place-port PORT port to bind [default: 9090]",
        "--taste-colour red|blue at most 100 % of it [default: red]",
        "--taste-is-loud true|false",
        "--taste-name TEXT who it is [ONCELOG_TASTE_NAME]",
        "What it likes",
    ):
        assert words in shown
