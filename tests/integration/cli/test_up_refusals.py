"""`oncelog up` that cannot start: one line that names what is wrong and the way out, and a failure's exit code."""

import os
import socket
import subprocess
import sys

import pytest

from oncelog_server.cli import run


@pytest.fixture
def refused_at_once(tmp_path, capsys, monkeypatch):
    """As `refused`, without a process: settings are read before anything starts."""

    def refused(*options, **environment):
        with monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            ports = ("--port", "0", "--gateway-port", "0")
            assert run(["up", "--data", str(tmp_path / "data"), *ports, *map(str, options)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("oncelog: ")
        return line

    return refused


def refused(tmp_path, *options, **environment):
    command = [sys.executable, "-m", "oncelog_server", "up", "--data", str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "--port", "0", "--gateway-port", "0", *map(str, options)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("oncelog: ")
    return lines[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ONCELOG_ADVERTISED_PORT", "abc"),
        ("ONCELOG_STORAGE_FLUSH_POLICY", "sometimes"),
        ("ONCELOG_COORDINATOR_TRANSACTION_MAX_TIMEOUT_MS", "soon"),
        ("ONCELOG_CONTROLLER_PARTITIONS_MAX", "many"),
        ("ONCELOG_LISTENER_NUM_PARTITIONS", "0"),
        ("ONCELOG_LOG_LEVEL", "chatty"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(refused_at_once, name, value):
    assert f"{name}={value!r}: " in refused_at_once(**{name: value})


def test_a_name_that_nobody_reads_is_refused_with_the_meant_one(tmp_path):
    said = refused(tmp_path, ONCELOG_STORAGE_FLUSH_POLICYY="always")
    assert "did you mean ONCELOG_STORAGE_FLUSH_POLICY?" in said


def test_a_flag_of_a_role_and_its_file_are_named(tmp_path, refused_at_once):
    assert "--flush-policy='sometimes'" in refused_at_once("--flush-policy", "sometimes")
    path = tmp_path / "oncelog.toml"
    path.write_text("[storage]\nflush_polcy = 'always'\n")
    assert f"{path}:2: [storage] flush_polcy is no setting" in refused_at_once("--config", path)
    path.write_text("[listener]\nport = 9192\n")
    assert "`oncelog up` takes [up] port" in refused_at_once("--config", path)


def test_a_folder_and_ephemeral_data_are_refused_together(refused_at_once):
    assert "leave out --ephemeral" in refused_at_once("--ephemeral")


def test_a_ready_file_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "missing" / "ready.json"
    assert f"cannot write the ready file {path}" in refused(tmp_path, "--ready-file", str(path))


def test_a_data_folder_below_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "data"
    assert str(path) in refused(tmp_path, "--data", str(path))


def test_every_port_that_is_in_use_is_named(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        kafka, rest = one.getsockname()[1], two.getsockname()[1]
        said = refused(tmp_path, "--port", kafka, "--gateway-port", rest)
        assert f"port {kafka} on 127.0.0.1 is in use" in said
        assert f"the gateway's port {rest} is in use too" in said
        said = refused(tmp_path, "--port", kafka)
        assert "too" not in said
        assert "ONCELOG_GATEWAY_PORT" in refused(tmp_path, "--gateway-port", rest)


def test_a_name_that_is_like_none_gets_no_guess(refused_at_once):
    said = refused_at_once(ONCELOG_FOO="1")
    assert "ONCELOG_FOO='1', which is no setting; correct" in said


def test_a_file_that_is_no_toml_is_named_with_its_line(tmp_path, refused_at_once):
    path = tmp_path / "oncelog.toml"
    path.write_text("[storage]\nflush_policy\n")
    assert f"{path}:2: not TOML: " in refused_at_once("--config", path)
    path.write_bytes(b"[storage]\n# \xff\n")
    assert f"{path}:2: not TOML: " in refused_at_once("--config", path)


def test_a_gateway_for_others_needs_a_decision(tmp_path):
    said = refused(tmp_path, "--host", "0.0.0.0")
    assert "ONCELOG_GATEWAY_AUTHENTICATION=required" in said
    assert "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE" in said
    missing = tmp_path / "none"
    required = {
        "ONCELOG_GATEWAY_AUTHENTICATION": "required",
        "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE": str(missing),
    }
    assert str(missing) in refused(tmp_path, "--host", "0.0.0.0", **required)
