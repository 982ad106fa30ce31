"""What `oncelog transactions audit` refuses before it starts Spark."""

from oncelog_server.cli import run


def test_topics_are_of_a_running_cluster(capsys, tmp_path):
    assert run(["transactions", "audit", str(tmp_path), "--topic", "orders"]) == 1
    assert "--topic is for a running cluster" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_named(capsys, tmp_path):
    missing = tmp_path / "missing"
    assert run(["transactions", "audit", str(missing)]) == 1
    assert f"there is no folder {missing}" in capsys.readouterr().err
