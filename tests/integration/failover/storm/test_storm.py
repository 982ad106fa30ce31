"""Applications with three unmodified clients go on while a seeded plan of faults hits every role; then all is judged.

`ONCELOG_STORM_SECONDS` makes the storm longer, `ONCELOG_STORM_SEED` another one. What a client was not told is unknown
and may be either way, but whole.
"""

import os
import time
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.integration.failover.storm.faults import Storm
from tests.integration.failover.storm.judge import (
    INTERNAL,
    Reader,
    judge_files,
    judge_transformers,
    judge_writers,
)
from tests.integration.failover.storm.ledger import Ledger, Place
from tests.integration.failover.storm.transformers import (
    INPUT,
    OUTPUT_PARTITIONS,
    TRANSFORMERS,
    output_of,
)
from tests.integration.failover.storm.writers import WRITERS
from tests.targets import asked_security

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, STORAGE
from oncelog_server.cluster.view import is_active, read_image

SECONDS = float(os.environ.get("ONCELOG_STORM_SECONDS", "10"))
# No listener is hit by the short form's: kafka-python 3.0.12 then may hang for a minute until it is started again.
SEED = int(os.environ.get("ONCELOG_STORM_SEED", "378"))
FROZEN_S_MAX = float(os.environ.get("ONCELOG_STORM_FROZEN_S_MAX", "4" if SECONDS <= 10 else "15"))
END_TIMEOUT_S = 120.0
CATCH_UP_S = 120.0

GROUPS = sorted({name.partition(".")[0] for name in TRANSFORMERS})
TOPICS = {INPUT: 3, "storm-other": 2, **{output_of(group): OUTPUT_PARTITIONS for group in GROUPS}}


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, partitions, 3) for name, partitions in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(60.0)


def start_all(bootstrap: str, ledger: Ledger, kinds, *arguments):
    started = [kind(name, ledger, bootstrap, *arguments) for name, kind in kinds.items()]
    for one in started:
        one.start()
    return started


def end_all(workers) -> list[str]:
    for one in workers:
        one.is_ending.set()
    deadline = time.monotonic() + END_TIMEOUT_S
    for one in workers:
        one.join(max(0.0, deadline - time.monotonic()))
    return [f"{one.name} is stuck in its client" for one in workers if one.is_alive()]


def unstable_groups(bootstrap: str) -> list[str]:
    """The groups whose members live must become stable."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        described = admin.describe_consumer_groups(GROUPS, request_timeout=30.0)
        states = {group: future.result().state for group, future in described.items()}
        wrong = {one: state for one, state in states.items() if state != ConsumerGroupState.STABLE}
        if not wrong:
            return []
        if time.monotonic() > deadline:
            return [f"group {one} is {state}" for one, state in wrong.items()]
        time.sleep(0.5)


def internal_places(cluster: Cluster) -> list[Place]:
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    image = read_image([one for one in addresses if is_active(one, cluster.tls)], cluster.tls)
    return [
        Place(name, number)
        for name in INTERNAL & set(image.topics)
        for number in range(len(image.topics[name].partitions))
    ]


def judged(reader: Reader, ledger: Ledger) -> list[str]:
    """Waits until the groups have caught up with their input, or for the deadline."""
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        reader.read_on(30.0)
        inputs = {
            f"{place.partition}/{offset}"
            for place, records in reader.seen.items()
            if place.topic == INPUT
            for offset, _ in records
        }
        is_final = time.monotonic() > deadline
        findings, is_behind = [], False
        for group in GROUPS:
            outputs = [
                value
                for place, records in reader.seen.items()
                if place.topic == output_of(group)
                for _, value in records
            ]
            is_behind = is_behind or len(outputs) < len(inputs)
            findings += judge_transformers(group, inputs, outputs, is_final=is_final)
        if findings or is_final or not is_behind:
            break
    outputs_of = {output_of(group) for group in GROUPS}
    written = {one: records for one, records in reader.seen.items() if one.topic not in outputs_of}
    return findings + judge_writers(ledger, written)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 600)
def test_a_storm(tmp_path_factory):
    folder = Path(os.environ.get("ONCELOG_STORM_FOLDER") or tmp_path_factory.mktemp("storm"))
    ledger = Ledger()
    with Cluster(folder, **asked_security()) as cluster:
        create_topics(cluster.bootstrap)
        storm = Storm(cluster, ledger, SEED, FROZEN_S_MAX)
        places = [
            Place(name, number) for name in (INPUT, "storm-other") for number in range(TOPICS[name])
        ]
        writers = start_all(cluster.bootstrap, ledger, WRITERS, places, SEED)
        transformers = start_all(cluster.bootstrap, ledger, TRANSFORMERS, places, SEED)
        begun = time.monotonic()
        findings = storm.findings
        try:
            storm.run(time.monotonic() + SECONDS)
            storm.heal()
            print(time.strftime("%H:%M:%S"), "healed", flush=True)
            if ledger.first_commit_begun_after(time.monotonic() - 5.0) is None:
                time.sleep(1.0)
            findings += end_all(writers)
            print(time.strftime("%H:%M:%S"), "writers ended", flush=True)
            reader = Reader(cluster.bootstrap, TOPICS)
            findings += [
                f"undecided: {one} {at}" for one, at in reader.await_decided(reader.places).items()
            ]
            findings += judged(reader, ledger)
            findings += unstable_groups(cluster.bootstrap)
        finally:
            report(storm, ledger, time.monotonic() - begun)
            stuck = end_all(transformers)
        findings += stuck
        held = reader.await_decided([*reader.places, *internal_places(cluster)])
        findings += [f"undecided: {one} {at}" for one, at in held.items()]
        reader.close()
        cluster.start_dead()
        findings += replicas_behind(cluster)
        storages = cluster.of_role(STORAGE)
        folders = data_folders(cluster, [one.name for one in storages])
    findings += judge_files(folders, {*WRITERS, *TRANSFORMERS})
    assert not findings, "\n".join([f"{len(findings)} findings of seed {SEED}:", *findings[:40]])


def replicas_behind(cluster: Cluster) -> list[str]:
    """Every replica must be back in sync."""
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        image = read_image([one for one in addresses if is_active(one, cluster.tls)], cluster.tls)
        behind = [
            f"{name}-{one.partition}: replicas {list(one.replicas)}, in sync {list(one.isr)}"
            for name, topic in image.topics.items()
            for one in topic.partitions
            if set(one.isr) != set(one.replicas)
        ]
        if not behind or time.monotonic() > deadline:
            return behind
        time.sleep(0.5)


def data_folders(cluster: Cluster, names: list[str]) -> list[Path]:
    return [cluster.folder / "data" / name for name in names]


def report(storm: Storm, ledger: Ledger, seconds: float) -> None:
    outcomes: dict[str, int] = {}
    for one in ledger.attempts:
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + 1
    print(f"\nseed {SEED}: {len(storm.log)} steps in {seconds:.0f} s; transactions {outcomes}")
    print("longest pauses:", ledger.longest_pauses())
    for line in storm.told():
        print("  ", line)
    for complaint, count in ledger.complaints.most_common(40):
        print(f"   {count} x {complaint}")
    print("not transformed for:", ledger.idle_s())
