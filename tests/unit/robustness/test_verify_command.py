"""`oncelog verify` used wrongly: exit code 2, one line that names the value and the way out, and no folder."""

import signal
import socket
import threading

import pytest
from oncelog_robustness.verify.__main__ import app
from oncelog_robustness.verify.cleaning import BEGINNING, new_run, prefix_of
from oncelog_robustness.verify.options import duration_s
from typer.testing import CliRunner

from oncelog.errors import OncelogError

NOBODY = "127.0.0.1:1"


@pytest.fixture
def verify(tmp_path, monkeypatch):
    """What it says when it is refused; it leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments):
        before = sorted(tmp_path.iterdir())
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2, done.output
        assert "Traceback" not in done.output
        assert sorted(tmp_path.iterdir()) == before
        return done.output

    yield run
    for one, handler in handlers.items():
        signal.signal(one, handler)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give BOOTSTRAP, host:port of any Kafka broker; or --history FILE"),
        (["nonsense"], "BOOTSTRAP 'nonsense' is no host:port"),
        (["a:1,b:x"], "BOOTSTRAP 'b:x' is no host:port"),
        (["a:70000"], "BOOTSTRAP 'a:70000' is no host:port"),
        (["a:1", "--for", "1s"], "--for '1s' is no duration from 5s to 24h, such as 30s, 2m or 1h"),
        (["a:1", "--for", "soon"], "--for 'soon' is no duration"),
        (["a:1", "--fault-every", "0s"], "--fault-every '0s' is no duration from 2s"),
        (["a:1", "--seed", "x"], "--seed 'x' is no whole number"),
        (["a:1", "--library", "sarama"], "no client library 'sarama'; there are aiokafka"),
        (
            ["a:1", "--library", "java", "--java-classpath", "nosuch.jar"],
            "java takes no part: ",
        ),
        (["a:1", "--heal", "true"], "--heal ends what --fault began: give --fault, too"),
        (["a:1", "--restart", "true"], "--restart starts the broker of a --pid-file"),
        (["a:1", "--namespace", "n"], "--namespace and --context say where --pods are"),
        (
            ["a:1", "--fault", "x", "--pods", "app=k"],
            "--fault and --pods are ways to break the same",
        ),
        (["a:1", "--history", "f"], "--history is judged by itself"),
        (["--history", "nosuch"], "cannot read --history nosuch"),
        (
            ["--history", "f", "--isolation", "none"],
            "--isolation 'none' is neither read_committed nor",
        ),
        (["a:1", "--clean", "*"], "--clean '*' is no id of a run"),
        (["a:1", "--config", "nosuch"], "cannot read nosuch of --config"),
        ([NOBODY, "--pid-file", "nosuch"], "--pid-file nosuch holds no process id"),
        ([NOBODY], f"nobody answers at {NOBODY}"),
    ],
)
def test_what_cannot_begin_is_told_in_one_line(verify, arguments, named):
    output = verify(*arguments)
    assert f"cannot begin: {named}" in output or named in output.splitlines()[-1]


def test_a_folder_of_an_earlier_run_is_refused(verify, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "history.jsonl.gz").touch()
    assert "holds an earlier run" in verify(NOBODY, "--folder", str(tmp_path / "old"))


def test_who_hangs_up_is_told_of_tls_and_logins(verify):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            for _ in range(3):
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        output = verify(f"127.0.0.1:{server.getsockname()[1]}")
    assert "does not answer as a Kafka broker" in output
    assert "if it wants TLS or a login, give --config client.properties" in output


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("2m", 120), ("1.5h", 5400), ("90", 90)]
)
def test_durations_have_units(text, seconds):
    assert duration_s("--for", text, 1, 86_400) == seconds


def test_a_runs_prefix_is_nobody_elses():
    first, second = new_run(), new_run()
    assert first != second
    assert prefix_of(first) == f"{BEGINNING}{first}-"
    for bad in ("", "abc", "abc12g", "abc123-"):
        with pytest.raises(OncelogError):
            prefix_of(bad)
