"""What a real cluster leaves behind is judged sound; the same files with one thing altered are not."""

import shutil
import struct
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from crc32c import crc32c
from oncelog_robustness.chaos.evidence import Evidence
from oncelog_robustness.checkers.cluster import CHECKERS
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import History
from oncelog_robustness.log_files import batches_of
from tests.targets import cluster_folder

from oncelog.record.batch import HEADER_BYTES
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape

WAIT_S = 60
SHAPE = ClusterShape(
    controllers=1, storage=3, coordinators=1, marker_senders=1, listeners=1, gateways=0
)
TOPIC = "orders"
SETTLED_MS = 1000


@pytest.fixture(scope="module")
def left_behind():
    """(evidence, blocks) of a cluster that has ended after some transactions."""
    with cluster_folder() as folder:
        with Cluster(folder, SHAPE) as cluster:
            write_transactions(cluster.bootstrap)
            evidence = Evidence.of(cluster)
            assert evidence.wait_settled(WAIT_S) == ""
            blocks = evidence.blocks()
        yield evidence, blocks


def write_transactions(bootstrap):
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(TOPIC, 2, 3)]).values():
        future.result(WAIT_S)
    for transactional_id in ("pay", "refund"):
        producer = Producer({**settings, "transactional.id": transactional_id})
        producer.init_transactions(WAIT_S)
        for number in range(6):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(TOPIC, f"{transactional_id} {number}", partition=partition)
            if number % 3 == 2:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
    plain = Producer({**settings, "enable.idempotence": True})
    for number in range(5):
        plain.produce(TOPIC, f"plain {number}", partition=0)
        plain.flush(WAIT_S)


@pytest.fixture
def altered(left_behind, tmp_path):
    """(evidence over a copy of all files, blocks)."""
    evidence, blocks = left_behind
    folders = {}
    for node_id, folder in evidence.data_dirs.items():
        folders[node_id] = tmp_path / str(node_id)
        shutil.copytree(folder, folders[node_id])
    return Evidence(folders), blocks


def verdicts_on(evidence, blocks):
    observations = evidence.read(SETTLED_MS, blocks)
    verdicts = [check(History(), observations) for check in CHECKERS]
    return {verdict.checker: verdict for verdict in verdicts}


def broken_on(evidence, blocks):
    verdicts = verdicts_on(evidence, blocks)
    return {
        name: verdict.proof for name, verdict in verdicts.items() if verdict.answer is Answer.BROKEN
    }


def segment_of(evidence, node_id, partition=0):
    folder = evidence.data_dirs[node_id] / f"{TOPIC}-{partition}"
    return next(iter(sorted(folder.glob("*.log"))))


def batches_with_places(path):
    """(position, header, bytes) of each batch of this file."""
    position = 0
    for header, data in batches_of(path.parent):
        yield position, header, data
        position += len(data)


def rewrite(path, change):
    """`change(header, bytes)` gives the bytes that stand there instead; none takes the batch away."""
    rewritten = [change(header, data) for _, header, data in batches_with_places(path)]
    path.write_bytes(b"".join(rewritten))


def with_crc(batch):
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def on_all_nodes(evidence, change, partition=0):
    for node_id in evidence.data_dirs:
        rewrite(segment_of(evidence, node_id, partition), change)


def test_what_a_cluster_leaves_behind_is_sound(left_behind):
    evidence, blocks = left_behind
    verdicts = verdicts_on(evidence, blocks)
    for name, verdict in verdicts.items():
        assert verdict.answer is not Answer.BROKEN, (name, verdict.proof)
    judged = {name for name, verdict in verdicts.items() if verdict.answer is Answer.OK}
    assert judged >= {
        "leader-epoch-went-back",
        "coordinator-epoch-went-back",
        "sequence-gap",
        "producer-epoch-went-back",
        "producer-id-reused",
        "illegal-transition",
        "two-outcomes",
        "transaction-left-open",
        "replicas-differ",
        "corrupt-minority",
    }
    assert blocks


def test_a_flipped_byte_is_found_on_its_node(altered):
    evidence, blocks = altered
    node_id = sorted(evidence.data_dirs)[1]
    path = segment_of(evidence, node_id)
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + 5] ^= 0x10
    path.write_bytes(content)
    broken = broken_on(evidence, blocks)
    assert set(broken) == {"corrupt-minority"}
    assert f"node {node_id}: the batch at 0 fails its CRC" in broken["corrupt-minority"][0]


def test_a_flipped_byte_under_a_fitting_crc_is_found_by_copies(altered):
    evidence, blocks = altered
    node_id = sorted(evidence.data_dirs)[2]

    def change(header, data):
        if header.base_offset:
            return data
        data = bytearray(data)
        data[-3] ^= 1
        return with_crc(bytes(data))

    rewrite(segment_of(evidence, node_id), change)
    broken = broken_on(evidence, blocks)
    assert set(broken) == {"corrupt-minority"}
    assert f"(node {node_id} against 2)" in broken["corrupt-minority"][0]


def test_a_batch_that_one_node_lost_is_missed(altered):
    evidence, blocks = altered
    node_id = sorted(evidence.data_dirs)[0]
    rewrite(segment_of(evidence, node_id), lambda header, data: data if header.base_offset else b"")
    broken = broken_on(evidence, blocks)
    assert f"node {node_id} has not" in broken["replicas-differ"][0]


def test_a_batch_lost_everywhere_leaves_a_gap_in_its_sequences(altered):
    evidence, blocks = altered
    taken = []

    def change(header, data):
        is_second = header.base_sequence == 1 and header.is_transactional
        if is_second and not header.is_control and taken in ([], [header.base_offset]):
            taken[:] = [header.base_offset]
            return b""
        return data

    on_all_nodes(evidence, change)
    assert taken
    broken = broken_on(evidence, blocks)
    assert set(broken) == {"sequence-gap", "hole-in-log"}
    assert "comes sequence 1" in broken["sequence-gap"][0]


def test_a_marker_turned_round_in_one_partition_is_found(altered):
    evidence, blocks = altered
    turned = []

    def change(header, data):
        if not header.is_control or turned not in ([], [header.base_offset]):
            return data
        turned[:] = [header.base_offset]
        data = bytearray(data)
        # Behind the record's length, attributes, deltas, key length and the key's version stands the type.
        at = HEADER_BYTES + 8
        data[at] ^= 1
        return with_crc(bytes(data))

    on_all_nodes(evidence, change, partition=1)
    assert turned
    broken = broken_on(evidence, blocks)
    assert set(broken) == {"two-outcomes"}
    assert f"{TOPIC}-1 at {turned[0]}: a" in broken["two-outcomes"][0]


def test_a_marker_that_no_node_has_leaves_a_transaction_open(altered):
    evidence, blocks = altered
    headers = [
        header
        for _, header, _ in batches_with_places(segment_of(evidence, min(evidence.data_dirs)))
    ]
    last = max(header.base_offset for header in headers if header.is_control)

    def change(header, data):
        return b"" if header.base_offset == last else data

    on_all_nodes(evidence, change)
    broken = broken_on(evidence, blocks)
    assert "is open since offset" in broken["transaction-left-open"][0]
    assert "has no marker for refund's Prepare" in broken["two-outcomes"][0]


def test_an_older_producer_epoch_behind_a_newer_one_is_a_zombie(altered):
    evidence, blocks = altered
    folder = segment_of(evidence, min(evidence.data_dirs)).parent
    with closing(iter(batches_of(folder))) as headers:
        first = next(header for header, _ in headers if header.is_control)

    def change(header, data):
        is_same = header.producer_id == first.producer_id
        if not is_same or header.base_offset > first.base_offset:
            return data
        data = bytearray(data)
        struct.pack_into(">h", data, 51, first.producer_epoch + 5)
        return with_crc(bytes(data))

    on_all_nodes(evidence, change)
    broken = broken_on(evidence, blocks)
    assert "behind epoch" in broken["producer-epoch-went-back"][0]


def test_an_id_outside_of_all_blocks_was_given_by_nobody(left_behind):
    evidence, blocks = left_behind
    others = [replace(block, first_producer_id=10**9) for block in blocks]
    assert "is in no block" in broken_on(evidence, others)["producer-id-reused"][0]
