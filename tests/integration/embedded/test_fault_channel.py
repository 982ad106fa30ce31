"""How a test asks for faults, what is refused, and that a log which nobody asked to take faults has none (ADR 0045)."""

import contextlib
import math
import os
import subprocess
import sys

import pytest
from confluent_kafka import Producer

import oncelog
from oncelog.errors import OncelogError
from oncelog.process.sources import Sources
from oncelog.protocol.versions import END_TXN
from oncelog.rpc.contract import GROUP_COORDINATOR, STORAGE
from oncelog_listener.handlers.transactions import end_txn
from oncelog_listener.routes import ROUTES
from oncelog_server.composition import embedded_roles
from oncelog_server.faults.moved_clock import MovedClock
from oncelog_server.faults.plane import FaultPlane
from oncelog_server.settings import EmbeddedSettings

WAIT_S = 60
ASKS = [
    lambda faults: faults.hold_end_txn("a"),
    lambda faults: faults.delay_end_txn("a", seconds=9),
    lambda faults: faults.hold_markers("a"),
    lambda faults: faults.delay_markers("a", seconds=9),
    lambda faults: faults.drop_markers("a"),
    lambda faults: faults.kill_coordinator(),
    lambda faults: faults.disk_full(),
]


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, "2", True, None])
def test_seconds_are_a_number_above_zero(oncelog_faults, seconds):
    for ask in (
        lambda: oncelog_faults.delay_end_txn("a", seconds=seconds),
        lambda: oncelog_faults.delay_markers("a", seconds=seconds),
        lambda: oncelog_faults.move_clock(seconds=seconds),
    ):
        with pytest.raises(OncelogError, match="must be a number above 0"):
            ask()


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_a_count_is_a_whole_number(oncelog_faults, count):
    with pytest.raises(OncelogError, match="must be a whole number of requests, at least 1"):
        oncelog_faults.drop_markers("a", count=count)


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_transactional_id_is_a_string(oncelog_faults, name):
    for ask in (
        oncelog_faults.hold_end_txn,
        oncelog_faults.hold_markers,
        oncelog_faults.drop_markers,
        oncelog_faults.expire_transaction,
        oncelog_faults.fence_producer,
    ):
        with pytest.raises(OncelogError, match=r"transactional_id=.*give the transactional.id"):
            ask(name)


def test_an_id_that_nobody_used_is_refused(oncelog_faults, oncelog_broker):
    producer = Producer(
        {"bootstrap.servers": oncelog_broker.bootstrap_servers, "transactional.id": "known"}
    )
    producer.init_transactions(WAIT_S)
    for ask in (oncelog_faults.expire_transaction, oncelog_faults.fence_producer):
        with pytest.raises(OncelogError, match=r"the transactional id 'unknown'; the log knows '"):
            ask("unknown")
    with pytest.raises(OncelogError, match="no transaction of 'known' is open"):
        oncelog_faults.expire_transaction("known")


def test_a_second_fault_of_a_kind_is_refused(oncelog_faults):
    kinds = (ASKS[:2], ASKS[2:5], ASKS[5:6], ASKS[6:])
    for kind in kinds:
        for first in kind:
            begun = first(oncelog_faults)
            for second in kind:
                with pytest.raises(OncelogError, match="already: release that first"):
                    second(oncelog_faults)
            with contextlib.suppress(OncelogError):
                begun.release()


def test_a_fault_that_nothing_met_is_told(oncelog_faults):
    """A test with a wrong transactional id would pass, and show nothing."""
    with (
        pytest.raises(
            OncelogError,
            match="nothing met a fault of EndTxn of 'order', so the test shows nothing of it; the log",
        ),
        oncelog_faults.hold_end_txn("order"),
    ):
        pass
    with pytest.raises(ZeroDivisionError), oncelog_faults.hold_end_txn("order"):
        _ = 1 / 0
    oncelog_faults.hold_end_txn("order")
    oncelog_faults.drop_markers("order")
    with pytest.raises(OncelogError, match=r"the markers of 'order'.*EndTxn of 'order'"):
        oncelog_faults.clear()
    oncelog_faults.clear()


def test_waiting_for_what_does_not_come_ends(oncelog_faults):
    held = oncelog_faults.hold_end_txn("order")
    with pytest.raises(OncelogError, match=r"nothing met hold_end_txn\(.*'order'\) in 0.01 s"):
        held.wait_until_met(0.01)
    with pytest.raises(OncelogError, match="nothing met"):
        held.release()


def test_nobody_is_expired_or_fenced_without_a_coordinator(oncelog_faults):
    with oncelog_faults.kill_coordinator():
        for ask in (oncelog_faults.expire_transaction, oncelog_faults.fence_producer):
            with pytest.raises(OncelogError, match="the coordinator was killed: release that"):
                ask("orders")


def test_a_fence_that_held_markers_stop_says_so(oncelog_broker, oncelog_faults):
    producer = Producer(
        {"bootstrap.servers": oncelog_broker.bootstrap_servers, "transactional.id": "orders"}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    assert producer.flush(WAIT_S) == 0
    with (
        oncelog_faults.hold_markers("orders"),
        pytest.raises(OncelogError, match="CONCURRENT_TRANSACTIONS; release the faults that hold"),
    ):
        oncelog_faults.fence_producer("orders")


def test_a_log_without_faults_says_how_to_have_them():
    with (
        oncelog.running() as log,
        pytest.raises(OncelogError, match=r"start it with oncelog.running\(faults=True\)"),
    ):
        _ = log.faults


def test_a_log_that_has_ended_says_so():
    with oncelog.running(faults=True) as log:
        faults = log.faults
    with pytest.raises(OncelogError, match="does not answer disk_full"):
        faults.disk_full()


def test_a_production_start_has_no_faults(tmp_path):
    """No flag, no variable, no file; and nothing of them is loaded."""
    for arguments, variables, said in (
        (["--faults", "3"], {}, "No such option"),
        ([], {"ONCELOG_FAULTS": "3"}, "ONCELOG_FAULTS"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "oncelog", "up", "--data", str(tmp_path / "data"), *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        assert done.returncode != 0
        assert said in done.stderr
    loaded = "import sys, oncelog_server.up\nprint(*(n for n in sys.modules if 'oncelog' in n and 'faults' in n))"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("descriptor", ["0", "999", "x"])
def test_a_child_whose_parent_has_no_channel_ends(descriptor, tmp_path):
    # Its end would tell the child that its parent has ended.
    stdin, parent = os.pipe()
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_server.child", descriptor],
        env={**os.environ, "ONCELOG_DATA": str(tmp_path / "data")},
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    os.close(stdin)
    os.close(parent)
    assert done.returncode == 1
    assert "is no socket of a parent that asks for faults" in done.stderr
    assert not (tmp_path / "data").exists()


async def test_after_the_release_the_log_is_as_it_was(tmp_path):
    """So nothing that no fault is set for costs anything."""
    clock = MovedClock()
    settings = EmbeddedSettings(data=tmp_path, port=0, gateway_port=0)
    async with embedded_roles(settings, tmp_path, Sources(), clock) as log:
        roles, plane = log.roles, FaultPlane(log, clock)
        markers = roles.marker_directory

        def seen():
            slot = roles.coordinator
            servicers = (slot.role.servicer, slot.role.group_servicer)
            return (
                ROUTES[END_TXN].handle is end_txn,
                (markers.stub(0, STORAGE), markers.stub(0, GROUP_COORDINATOR)),
                (os.pwrite, os.pwritev),
                clock.ahead_ms,
                (slot.stub._servicer, slot.group_stub._servicer) == servicers,
            )

        before = seen()
        plane.hold_end_txn("a", None)
        plane.hold_end_txn("b", None)
        plane.hold_markers("a", None)
        plane.drop_markers("b", 1)
        plane.move_clock(10)
        await plane.kill_coordinator()
        plane.disk_full()
        assert not any(one == other for one, other in zip(before, seen(), strict=True))
        with pytest.raises(OncelogError, match="nothing met"):
            await plane.clear()
        assert seen() == before


FAILING = """
import pytest

def test_one(oncelog_faults):
    oncelog_faults.disk_full()
    oncelog_faults.kill_coordinator()
    oncelog_faults.move_clock(seconds=60)
    assert not "it fails"

def test_two(oncelog_faults, oncelog_broker):
    from confluent_kafka import Producer
    settings = {"bootstrap.servers": oncelog_broker.bootstrap_servers, "transactional.id": "t"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.commit_transaction(30)
    with pytest.raises(Exception, match="nothing met the full disk"):
        while True:
            oncelog_faults.disk_full().release()
"""


def test_faults_end_with_a_test_that_fails(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING)
    plugin = ["-p", "no:oncelog", "-p", "oncelog.pytest_plugin", "-p", "no:cacheprovider"]
    folder = f"--basetemp={tmp_path / 'base'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, folder, str(tmp_path / "test_it.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=WAIT_S * 2,
    )
    assert "FAILED test_it.py::test_one" in done.stdout, done.stdout
    assert "test_two" not in done.stdout, done.stdout
    assert "1 failed, 1 passed" in done.stdout, done.stdout
