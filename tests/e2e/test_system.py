"""A whole cluster of containers, or of pods: real clients, a kill of each role, an upgrade, a machine cut off."""

import os
import subprocess
import sys
import time
import uuid
from itertools import pairwise
from pathlib import Path

import pytest
from oncelog_robustness.chaos.plan import MACHINES
from oncelog_robustness.fault_plan import FaultKind
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.kafka_python import KafkaPython
from tests.e2e.load import Load

from oncelog_server.cluster.plan import POSTGRES, REDIS, ROLES, STORAGE

HOME = Path(__file__).parents[2]
IS_SHORT = "ONCELOG_E2E_SHORT" in os.environ
CLIENTS = {one.__name__: one for one in (Confluent, Aiokafka, KafkaPython)}
CONFORMANCE = (
    "tests/conformance/test_transactions_with_clients.py",
    "tests/conformance/test_records_with_clients.py",
    "tests/conformance/test_groups_with_clients.py",
)
CONFORMANCE_S = 900
SETTLED_S = 3.0
"""Of work before a fault and after it."""
CUT_S = 10.0

not_short = pytest.mark.skipif(IS_SHORT, reason="the short form leaves it out")
pytestmark = pytest.mark.timeout(900)


def new_topic() -> str:
    return f"e2e-{uuid.uuid4().hex[:10]}"


def told(what, verdict, pauses=""):
    print(
        f"\n{what}: {verdict.commits} commits, {verdict.aborts} aborts, {len(verdict.failures)} failed, "
        f"{len(verdict.lost)} lost, {len(verdict.doubled)} doubled; p50 {verdict.p50_s:.2f} s, "
        f"p99 {verdict.p99_s:.2f} s, longest pause {verdict.longest_pause_s:.2f} s{pauses}",
        flush=True,
    )


def await_commits(load, count=3):
    """Every writer has ended so many transactions since now."""
    wanted = [len(one.ended_s) + count for one in load.writers]
    deadline = time.monotonic() + 120
    while any(len(w.ended_s) < n for w, n in zip(load.writers, wanted, strict=True)):
        assert time.monotonic() < deadline, [one.failures for one in load.writers]
        time.sleep(0.05)


def judged(place, load, what, pauses=""):
    verdict = load.verdict()
    told(what, verdict, pauses)
    assert not place.findings()
    assert verdict.is_sound, verdict
    assert verdict.commits > 10


def longest_pause_since(load, since_s):
    """Of any writer: from the end of its last transaction before, or `since_s`, on."""
    longest = 0.0
    for writer in load.writers:
        ends = [since_s, *(one for one in writer.ended_s if one > since_s)]
        longest = max([longest, *(after - before for before, after in pairwise(ends))])
    return longest


@pytest.mark.parametrize("name", CLIENTS)
def test_a_transaction_of_each_client_is_read_committed(place, name):
    client, topic, sentinel = CLIENTS[name](), new_topic(), b"the end"
    Load(place.bootstrap, topic, replicas=place.replicas)
    producer = client.producer(place.bootstrap, f"tx-{topic}")
    try:
        producer.init()
        for value, is_commit in ((b"kept", True), (b"aborted", False), (sentinel, True)):
            producer.begin()
            producer.send(topic, value, partition=0)
            producer.commit() if is_commit else producer.abort()
    finally:
        producer.close()
    seen = client.read(place.bootstrap, topic, until=sentinel)
    assert [one.value for one in seen] == [b"kept", sentinel]


def test_every_role_tells_its_part_of_a_transaction(place):
    """Redis, the secrets and the network between all of them are as they have to be."""
    topic = new_topic()
    Load(place.bootstrap, topic, replicas=place.replicas)
    producer = Confluent().producer(place.bootstrap, f"tx-{topic}")
    try:
        producer.init()
        producer.begin()
        producer.send(topic, b"seen", partition=0)
        producer.commit()
    finally:
        producer.close()
    deadline = time.monotonic() + 30
    while True:
        timeline = place.ask(f"/v1/transactions/tx-{topic}/timeline")
        told_by = {one["role"] for one in timeline["events"]}
        if told_by >= {"coordinator", "marker-sender", "storage"}:
            return
        assert time.monotonic() < deadline, timeline
        time.sleep(0.2)


def test_no_transaction_fails_while_each_role_loses_a_process(place):
    topic, pauses = new_topic(), {}
    with Load(place.bootstrap, topic, replicas=place.replicas) as load:
        await_commits(load)
        for role in (*(one.role for one in ROLES), POSTGRES, REDIS):
            kind = {
                POSTGRES: FaultKind.DATABASE_OUTAGE,
                REDIS: FaultKind.REDIS_OUTAGE,
            }.get(role, FaultKind.KILL)
            if role not in place.members:
                continue
            since_s = time.monotonic()
            with place.fault(kind, place.members[role][0]):
                time.sleep(1)
            time.sleep(0 if IS_SHORT else SETTLED_S)
            await_commits(load)
            pauses[role] = longest_pause_since(load, since_s)
    by_role = ", ".join(f"{role} {pause:.2f}" for role, pause in pauses.items())
    judged(place, load, "kills", f"; longest pause after the kill of {by_role} s")
    assert not place.unsettled()


@not_short
def test_no_transaction_fails_while_every_role_is_rolled(place):
    with Load(place.bootstrap, new_topic(), replicas=place.replicas) as load:
        await_commits(load)
        pauses = {}
        for role in ROLES:
            since_s = time.monotonic()
            with place.fault(FaultKind.ROLLING_RESTART, role.role):
                await_commits(load)
            pauses[role.role] = longest_pause_since(load, since_s)
    by_role = ", ".join(f"{role} {pause:.2f}" for role, pause in pauses.items())
    judged(place, load, "rolling upgrade", f"; longest pause during that of {by_role} s")
    assert not place.unsettled()


@not_short
@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_transaction_fails_while_a_machine_is_cut_off(place, number):
    if not place.can(FaultKind.PARTITION):
        pytest.skip("nothing can be cut off here: the tools image has no iptables, or may not")
    victims = place.members.get(MACHINES) or place.members[STORAGE.role]
    with Load(place.bootstrap, new_topic(), replicas=place.replicas) as load:
        await_commits(load)
        with place.fault(FaultKind.PARTITION, victims[number % len(victims)]):
            time.sleep(CUT_S)
        await_commits(load)
        time.sleep(SETTLED_S)
    judged(place, load, f"{victims[number % len(victims)]} cut off for {CUT_S:.0f} s")
    assert not place.unsettled()


@not_short
@pytest.mark.timeout(CONFORMANCE_S + 60)
def test_the_clients_conformance_tests_pass(place, tmp_path):
    """What kills the server, and Java, is for `make conformance`."""
    environment = {
        **os.environ,
        "ONCELOG_TEST_TARGET": "address",
        "ONCELOG_TEST_BOOTSTRAP": place.bootstrap,
    }
    command = [sys.executable, "-m", "pytest", "-q", *CONFORMANCE, "-m", "not slow"]
    done = subprocess.run(
        [*command, "-k", "not java and not kill", f"--basetemp={tmp_path / 'conformance'}"],
        cwd=HOME,
        env=environment,
        capture_output=True,
        text=True,
        timeout=CONFORMANCE_S,
        check=False,
    )
    print(f"\nconformance: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-6000:]
