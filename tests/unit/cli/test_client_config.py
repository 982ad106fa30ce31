"""`--config`: which file counts, which address it gives, and what a command without one is told."""

import socket
import threading

import pytest

from oncelog_server.cli import run

COMMAND = ["topics", "list"]


@pytest.fixture(autouse=True)
def nothing_set(tmp_path, monkeypatch):
    monkeypatch.setenv("ONCELOG_PROFILES", str(tmp_path / "profiles.toml"))
    for name in ("BOOTSTRAP", "CLIENT_CONFIG", "GATEWAY", "PROFILE"):
        monkeypatch.delenv(f"ONCELOG_{name}", raising=False)


@pytest.fixture
def config(tmp_path):
    """A file for each name, with an address of its own where nobody listens."""

    def write(name, port):
        path = tmp_path / f"{name}.properties"
        path.write_text(f"bootstrap.servers=127.0.0.1:{port}\nsecurity.protocol=SSL\n")
        return str(path)

    return write


def said(capsys, *arguments):
    capsys.readouterr()
    assert run([*arguments]) == 1
    return capsys.readouterr().err


def test_the_nearest_file_gives_the_address(config, capsys, monkeypatch):
    option, root = config("option", 1), config("root", 2)
    variable, profile = config("variable", 3), config("profile", 4)
    assert run(["profiles", "set", "p", "--config", profile]) == 0
    assert "127.0.0.1:4 " in said(capsys, *COMMAND)
    monkeypatch.setenv("ONCELOG_CLIENT_CONFIG", variable)
    assert "127.0.0.1:3 " in said(capsys, *COMMAND)
    assert "127.0.0.1:4 " in said(capsys, "--profile", "p", *COMMAND)
    assert "127.0.0.1:2 " in said(capsys, "--config", root, *COMMAND)
    assert "127.0.0.1:1 " in said(capsys, "--config", root, *COMMAND, "--config", option)
    assert "127.0.0.1:9 " in said(
        capsys, *COMMAND, "--config", option, "--bootstrap", "127.0.0.1:9"
    )


def test_a_login_of_a_profile_does_not_go_to_another_address(tmp_path, capsys):
    bad = tmp_path / "bad.properties"
    bad.write_text("bootstrap.servers=127.0.0.1:1\n")
    assert run(["profiles", "set", "p", "--config", str(bad)]) == 0
    bad.write_text("who=reads this?\n")
    assert "who is not supported" in said(capsys, *COMMAND)
    assert "127.0.0.1:9 " in said(capsys, *COMMAND, "--bootstrap", "127.0.0.1:9")


def test_every_command_that_talks_kafka_takes_it(tmp_path, capsys):
    gone = str(tmp_path / "gone.properties")
    for command in (
        ["produce", "t"], ["consume", "t"], ["topics", "delete", "t", "-y"], ["acls", "list"],
        ["users", "list"], ["smoke-test"], ["groups", "reset-offsets", "g", "--topic", "t", "--to", "end"],
        ["health"],
    ):  # fmt: skip
        assert "gone.properties" in said(capsys, *command, "--config", gone), command


def test_a_profile_needs_a_file_that_can_be_read(tmp_path, capsys):
    assert "cannot read" in said(capsys, "profiles", "set", "p", "--config", str(tmp_path / "no"))
    assert "no profile" in said(capsys, "--profile", "p", *COMMAND)


def test_a_listener_with_tls_is_told_from_a_plain_one(capsys):
    """It hangs up on what does not begin with TLS; librdkafka would try again for ten seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up():
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(64)

        threading.Thread(target=hang_up, daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert "--config client.properties" in said(capsys, *COMMAND, "--bootstrap", address)
