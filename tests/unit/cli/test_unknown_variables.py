"""Every command refuses a variable that nobody reads, as the servers do."""

import pytest
from tests.unit.cli.all_commands import commands
from typer.testing import CliRunner

from oncelog.errors import OncelogError
from oncelog_server.cli import root

WITHOUT_AN_ADDRESS = {("storage", "repair"), ("backup",), ("cluster", "status"), ("up",)}
BY_WORDS = dict(commands())


def test_the_table_has_commands_of_every_sort():
    assert BY_WORDS.keys() >= WITHOUT_AN_ADDRESS | {("produce",), ("topics", "list")}


@pytest.mark.parametrize("words", BY_WORDS, ids=" ".join)
def test_every_command_refuses_a_misspelled_variable(words, monkeypatch):
    monkeypatch.setenv("ONCELOG_BOOTSTRAPP", "other:9092")
    with pytest.raises(OncelogError, match="did you mean ONCELOG_BOOTSTRAP"):
        BY_WORDS[words].callback()


@pytest.mark.parametrize("verb", ["status", "down", "kill"])
def test_a_misspelled_folder_of_a_cluster_is_refused(verb, monkeypatch):
    monkeypatch.setenv("ONCELOG_CLUSTER_FOLDR", "other")
    with pytest.raises(OncelogError, match="did you mean ONCELOG_CLUSTER_FOLDER"):
        BY_WORDS["cluster", verb].callback()


def test_help_is_shown_in_spite_of_a_misspelled_variable(monkeypatch):
    monkeypatch.setenv("ONCELOG_BOOTSTRAPP", "other:9092")
    assert CliRunner().invoke(root, ["topics", "list", "--help"]).exit_code == 0


def test_variables_of_roles_and_of_the_project_are_left_alone(monkeypatch):
    monkeypatch.setenv("ONCELOG_STORAGE_FLUSH_POLICY", "always")
    monkeypatch.setenv("ONCELOG_TEST_EXPLORE", "1")
    assert CliRunner().invoke(root, ["profiles", "list"]).exit_code == 0
