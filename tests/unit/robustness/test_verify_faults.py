"""What breaks a stranger's brokers: real processes here, an engine that is a script, and pods on paper."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from oncelog_robustness.chaos.containers.engine import Engine
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import plan_chaos
from oncelog_robustness.chaos.pods.state import pod_from
from oncelog_robustness.clients import java_process
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.verify.faults import (
    CommandDriver,
    ContainerDriver,
    DriverInjector,
    ProcessDriver,
    Shell,
    is_alive,
    members_of,
    pid_in,
)
from oncelog_robustness.verify.pods import PodDriver
from tests.unit.robustness.pods_on_paper import pod

from oncelog.errors import OncelogError
from oncelog.process.names import PREFIX

KILL, PAUSE, RESTART, OPERATE = (
    FaultKind.KILL,
    FaultKind.PAUSE,
    FaultKind.RESTART,
    FaultKind.OPERATE,
)
ROLLING = FaultKind.ROLLING_RESTART
SLEEPER = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "
    "time.sleep(600)"
)
START = f'{sys.executable} -c "{SLEEPER}" & echo $! > "$VERIFY_PID_FILE"'


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path / "faults.log")


@contextlib.contextmanager
def running(file, program=SLEEPER):
    """Yield the pid file of a process. The process that stands in the file at the end is killed."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    if program != SLEEPER:
        process.stdout.readline()
    file.write_text(f"{process.pid}\n")
    yield file
    process.kill()
    process.communicate()
    subprocess.run(["kill", "-9", file.read_text().strip()], check=False, capture_output=True)


@pytest.fixture
def sleeper(tmp_path):
    with running(tmp_path / "broker.pid") as file:
        yield file


def state_of(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]


def carry_out(injector, *faults):
    async def run():
        for one in faults:
            await injector.begin(one)
            await injector.end(one)
        injector.close()

    asyncio.run(run())
    return injector


def fault(kind, target="broker-1", at_ms=0):
    return PlannedFault(at_ms, 100, kind, target)


def test_a_process_is_frozen_and_goes_on(sleeper, shell):
    driver = ProcessDriver([str(sleeper)], "", shell)
    assert list(driver.deck) == [PAUSE]
    pid = pid_in(str(sleeper))
    assert f"SIGSTOP to {pid}" in driver.begin(PAUSE, str(sleeper))
    deadline = time.monotonic() + 10
    while state_of(pid) != "T":
        assert time.monotonic() < deadline
    driver.end(PAUSE, str(sleeper))
    while state_of(pid) == "T":
        assert time.monotonic() < deadline


def test_a_process_is_killed_and_restarted(sleeper, shell):
    driver = ProcessDriver([str(sleeper)], START, shell)
    assert KILL in driver.deck
    first = pid_in(str(sleeper))
    driver.begin(KILL, str(sleeper))
    assert not is_alive(first)
    driver.end(KILL, str(sleeper))
    assert pid_in(str(sleeper)) != first


@pytest.fixture
def two(tmp_path):
    """The pid files of two processes."""
    with running(tmp_path / "a.pid") as first, running(tmp_path / "b.pid") as second:
        yield [str(first), str(second)]


def test_a_rolling_restart_ends_and_starts_each_in_turn(two, shell, tmp_path):
    alive = tmp_path / "alive"
    look = f"kill -0 $(cat {two[1]}) 2>/dev/null && echo $VERIFY_PID_FILE >> {alive}; "
    driver = ProcessDriver(two, f"{look}{START}", shell)
    before = [pid_in(one) for one in two]
    injector = carry_out(DriverInjector(driver, lambda _: ""), fault(ROLLING, "broker"))
    assert not any(is_alive(pid) for pid in before)
    assert all(pid_in(one) not in before for one in two)
    # The second one ran while the first was started.
    assert alive.read_text().split()[0] == two[0]
    assert injector.facts["rolling-restart broker at 0"] == (
        f"SIGTERM to {before[0]} of {two[0]}, SIGTERM to {before[1]} of {two[1]}"
    )
    assert injector.findings == []


def test_a_process_that_ignores_sigterm_is_killed_and_started(tmp_path, shell):
    with running(tmp_path / "broker.pid", STUBBORN) as file:
        driver = ProcessDriver([str(file)], START, shell, grace_s=0.2)
        first = pid_in(str(file))
        assert driver.begin(ROLLING, "broker").endswith("broker.pid and SIGKILL 0.2 s later")
        assert not is_alive(first)
        assert pid_in(str(file)) != first


def test_what_a_broken_rolling_restart_left_is_started(two, shell, tmp_path):
    """The first start fails, so the second process is not stopped. The end of the fault tries again."""
    once = tmp_path / "once"
    driver = ProcessDriver(two, f"[ -e {once} ] || {{ touch {once}; exit 3; }}; {START}", shell)
    before = [pid_in(one) for one in two]
    injector = carry_out(DriverInjector(driver, lambda _: ""), fault(ROLLING, "broker"))
    assert injector.missed == {"rolling-restart broker at 0"}
    assert len(injector.findings) == 1
    assert pid_in(two[0]) != before[0]
    assert pid_in(two[1]) == before[1]


def test_a_rolling_restart_that_is_healed_spares_the_others(two, shell, tmp_path):
    """As after a Ctrl-C: the one that was stopped is started, and the next is not struck."""
    began = tmp_path / "began"
    driver = ProcessDriver(two, f"touch {began}; sleep 0.5; {START}", shell)
    before = [pid_in(one) for one in two]
    injector = DriverInjector(driver, lambda _: "")

    async def run():
        restart = asyncio.create_task(injector.begin(fault(ROLLING, "broker")))
        async with asyncio.timeout(20):
            while not began.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await injector.heal()
            await restart
        injector.close()

    asyncio.run(run())
    assert pid_in(two[0]) != before[0]
    assert pid_in(two[1]) == before[1]
    assert injector.findings == []


def test_a_rolling_restart_that_struck_nobody_is_no_fault(two, shell):
    driver = ProcessDriver(two, START, shell)
    driver.heal()
    injector = carry_out(DriverInjector(driver, lambda _: ""), fault(ROLLING, "broker"))
    assert injector.missed == {"rolling-restart broker at 0"}


def test_a_plan_has_rolling_restarts_of_all_brokers(two, shell):
    driver = ProcessDriver(two, START, shell)
    injector = DriverInjector(driver, lambda _: "")
    decks = {"broker": driver.deck, CLIENTS: {FaultKind.CLIENT_KILL: 1}}
    plan = plan_chaos(
        members_of(driver), 120_000, injector.can, random.Random(7), decks=decks, hits_per_minute=6
    )
    injector.close()
    struck = [one for one in plan if one.target != CLIENTS]
    assert {one.target for one in struck if one.kind is ROLLING} == {"broker"}
    assert {one.kind for one in struck} == {KILL, PAUSE, ROLLING}
    assert {one.target for one in struck} == {"broker", "broker-1", "broker-2"}


@pytest.mark.parametrize("text", ["", "no number", "1", "0", "-1", "4194305"])
def test_a_pid_file_without_a_broker_is_refused(text, tmp_path, shell):
    file = tmp_path / "pid"
    file.write_text(text)
    with pytest.raises(OncelogError, match=r"--pid-file .*pid"):
        ProcessDriver([str(file)], "", shell)


def test_commands_take_turns_and_are_healed(tmp_path, shell):
    done = tmp_path / "done"
    driver = CommandDriver(
        [f"echo one >> {done}", f"echo two >> {done}"], f"echo heal >> {done}", shell
    )
    injector = DriverInjector(driver, lambda _: "")
    carry_out(injector, fault(OPERATE, "command-2"), fault(OPERATE, "command-1", 5))
    assert done.read_text().split() == ["two", "heal", "one", "heal"]
    assert injector.findings == []
    assert injector.facts["operate command-1 at 5"] == f"echo one >> {done}"


def test_a_command_that_fails_is_no_fault_and_is_told(shell, tmp_path):
    injector = DriverInjector(CommandDriver(["echo no; exit 3"], "", shell), lambda _: "")
    carry_out(injector, fault(OPERATE, "command-1"))
    (finding,) = injector.findings
    assert "'echo no; exit 3' ended with 3; see" in finding
    assert injector.missed == {"operate command-1 at 0"}
    assert (tmp_path / "faults.log").read_text() == "$ echo no; exit 3\nno\n"


def test_what_a_command_leaves_running_holds_nothing_up(shell):
    began = time.monotonic()
    shell.run("sleep 600 & echo $!")
    assert time.monotonic() - began < 60
    pid = int(shell._log.read_text().split()[-1])
    subprocess.run(["kill", str(pid)], check=True)


def test_what_is_under_way_ends_when_a_run_heals(sleeper, shell):
    injector = DriverInjector(ProcessDriver([str(sleeper)], "", shell), lambda _: "")

    async def run():
        await injector.begin(fault(PAUSE))
        await injector.heal()
        injector.close()

    asyncio.run(run())
    assert state_of(pid_in(str(sleeper))) != "T"
    assert injector.findings == []


def test_a_cancelled_end_thaws_its_process(sleeper, shell):
    injector = DriverInjector(ProcessDriver([str(sleeper)], "", shell), lambda _: "")

    async def run():
        await injector.begin(fault(PAUSE))
        busy = asyncio.create_task(injector._call(lambda _: time.sleep(0.3), fault(PAUSE)))
        ending = asyncio.create_task(injector.end(fault(PAUSE)))
        await asyncio.sleep(0.1)
        ending.cancel()
        await asyncio.wait([busy, ending])
        injector.close()

    asyncio.run(run())
    assert state_of(pid_in(str(sleeper))) != "T"


def test_a_broker_whose_kill_failed_half_way_is_restarted(sleeper, shell, tmp_path):
    pid = pid_in(str(sleeper))
    restarted = tmp_path / "restarted"
    driver = ProcessDriver([str(sleeper)], f"echo $VERIFY_PID_FILE > {restarted}; false", shell)
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.01)
    carry_out(injector := DriverInjector(driver, lambda _: ""), fault(FaultKind.KILL))
    assert restarted.read_text().strip() == str(sleeper)
    assert injector.missed == {"kill broker-1 at 0"}


def test_our_own_clients_die_with_and_without_a_driver():
    injector = DriverInjector(None, lambda strength: f"client at {strength}")
    assert injector.can(FaultKind.CLIENT_KILL)
    assert not injector.can(KILL)
    carry_out(injector, fault(FaultKind.CLIENT_KILL, CLIENTS))
    assert injector.facts == {"client-kill clients at 0": "client at 0.5"}
    nobody = carry_out(DriverInjector(None, lambda _: ""), fault(FaultKind.CLIENT_KILL, CLIENTS))
    assert nobody.missed == {"client-kill clients at 0"}


def test_a_plan_strikes_every_target_and_our_clients(shell):
    driver = CommandDriver(["a", "b"], "", shell)
    injector = DriverInjector(driver, lambda _: "")
    plan = plan_chaos(
        members_of(driver),
        60_000,
        injector.can,
        random.Random(1),
        decks={"command": driver.deck, CLIENTS: {FaultKind.CLIENT_KILL: 1}},
        hits_per_minute=6,
    )
    injector.close()
    assert {one.target for one in plan} == {"command-1", "command-2", CLIENTS}
    assert sum(one.kind is OPERATE for one in plan) == 6


def test_containers_are_killed_frozen_and_stopped_by_name(tmp_path):
    calls = tmp_path / "calls"
    engine = tmp_path / "docker"
    engine.write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\n[ "$4" = gone ] && exit 1\necho "[{{}}]"\n'
    )
    engine.chmod(0o755)
    driver = ContainerDriver(Engine(str(engine)), ["kafka-a"])
    for kind in (KILL, PAUSE, RESTART):
        assert "kafka-a" in driver.begin(kind, "kafka-a")
        driver.end(kind, "kafka-a")
    assert calls.read_text().splitlines()[1:] == [
        f"{word} kafka-a" for word in ("kill", "start", "pause", "unpause", "stop", "start")
    ]
    with pytest.raises(OncelogError, match=r"--container gone: .* knows no such container"):
        ContainerDriver(Engine(str(engine)), ["gone"])


def test_pods_of_a_label_are_deleted_and_waited_for():
    pods = [pod_from(pod("kafka", f"kafka-{number}")) for number in range(3)]
    deleted = []
    driver = PodDriver(lambda: pods, lambda one, grace_s: deleted.append((one.name, grace_s)))
    assert len(driver.names) == 3
    assert driver.begin(KILL, "1") == "deleted kafka-1 at once"
    assert driver.begin(RESTART, "2") == "deleted kafka-2"
    assert deleted == [("kafka-1", 0), ("kafka-2", None)]
    driver.end(KILL, "1")
    with pytest.raises(OncelogError, match="no pod has this label"):
        PodDriver(list, lambda *_: None)


def test_what_commands_inherit_is_no_setting_of_oncelog():
    """An `oncelog up` that `--restart` starts refuses a variable of its prefix that it does not know."""
    assert not java_process.CLASSPATH_VARIABLE.startswith(PREFIX)
