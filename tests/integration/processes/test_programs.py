"""Each `python -m oncelog_<role>` before it meets a cluster: help, wrong settings, signals during the start."""

import json
import signal
import socket

import pytest
from sqlalchemy import create_engine, text
from tests.integration.controller.sql_databases import postgres_server, postgres_url
from tests.integration.processes.conftest import PROGRAMS
from tests.integration.processes.deadlines import eventually

from oncelog_controller.database import MIGRATION_LOCK
from oncelog_server.cluster.plan import HOST, FreePorts

__all__ = ["postgres_server", "postgres_url"]

WAIT_S = 60


def ended(process):
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


@pytest.mark.parametrize("module", PROGRAMS)
def test_help_lists_the_settings_of_node_role_and_process(run_program, module):
    code, out, err = ended(run_program(module, "--help", COLUMNS="100"))
    assert (code, err) == (0, "")
    role = module.removeprefix("oncelog_").replace("_", "-")
    for flag in ("--node-port PORT", "--process-log-level debug|info|warning|error", f"--{role}-"):
        assert flag in out


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_value_that_cannot_be_ends_with_two_and_one_line(run_program, module):
    flag = run_program(module, "--node-id", "1", "--node-port", "many")
    variable = run_program(module, "--node-id", "1", ONCELOG_PROCESS_LOG_LEVEL="loud")
    for process, said in ((flag, "--node-port='many'"), (variable, "LOG_LEVEL='loud'")):
        code, out, err = ended(process)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert said in err


def test_a_process_reads_its_own_tables_of_a_shared_file(run_program, tmp_path):
    file = tmp_path / "oncelog.toml"
    file.write_text(
        '[process]\nlog_format = "json"\n[coordinator]\nretry_backoff_ms = 20\n'
        "[storage]\nopen_files_max = 1\n"
    )
    code, _, err = ended(run_program("oncelog_storage", "--node-id", "1", "--config", str(file)))
    assert code == 2
    assert f"{file}:6: [storage] open_files_max = '1'" in err
    nobody = f"{HOST}:{FreePorts().next_port()}"
    listener = run_program(
        "oncelog_listener",
        *("--node-id", "99", "--node-port", "0", "--node-controllers", nobody),
        ONCELOG_CONFIG=str(file),
    )
    assert json.loads(listener.stderr.readline())["msg"] == "oncelog_listener starts"
    listener.send_signal(signal.SIGINT)
    assert ended(listener)[0] == 0


def test_a_program_refuses_to_run_without_its_asserts(run_program):
    code, _, err = ended(run_program("oncelog_storage", python=["-O"]))
    assert code == 2
    assert "python -O" in err


def test_an_address_in_use_is_told_in_one_line(run_program):
    with socket.create_server((HOST, 0)) as server:
        taken = server.getsockname()[1]
        process = run_program("oncelog_storage", "--node-id", "99", "--node-port", str(taken))
        code, _, err = ended(process)
    assert code == 1
    last = err.splitlines()[-1]
    assert "level=error" in last
    assert str(taken) in last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_that_waits_for_a_controller(run_program, tmp_path, number):
    """Nobody is the controller there, so this node never gets ready, and still ends in order."""
    nobody, port = FreePorts().next_port(), FreePorts().next_port()
    process = run_program(
        "oncelog_storage",
        *("--node-id", "99", "--node-port", str(port), "--node-controllers", f"{HOST}:{nobody}"),
        *("--storage-data-dir", str(tmp_path)),
    )
    # From this line on its signal handlers are there.
    assert "oncelog_storage starts" in process.stderr.readline()
    process.send_signal(number)
    code, _, err = ended(process)
    assert code == 0, err
    assert 'msg="stopped"' in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_controller_that_waits_for_a_migration(run_program, postgres_url, number):
    """Which may take half a minute; the one who told it to stop would not wait for so long."""
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND query LIKE '%advisory_xact_lock%'"
    )
    with engine.connect() as migrating:
        migrating.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
        process = run_program(
            "oncelog_controller",
            *("--node-id", "1", "--node-port", str(FreePorts().next_port())),
            *("--controller-database-url", postgres_url),
        )
        eventually(lambda: migrating.execute(waiting).scalar_one() > 0)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert 'msg="stopped"' in err
    engine.dispose()
