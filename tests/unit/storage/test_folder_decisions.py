"""What a folder's files mean, and what may leave it: checkpoints, history, retention, scrubbing, ISR proposals."""

import pytest
from tests.worlds.storage.partitions import HERE, OTHER, log_state, partition_of, with_followers
from tests.worlds.storage.segments import MemorySegment, batch, walked

from oncelog.api.v1 import controller_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.checkpoint_files import (
    decode_checkpoint,
    encode_topic_id,
    is_same_topic,
    may_have_lost_power,
    partitions_named,
    properties_of,
)
from oncelog_storage.core.cleaning_plan import SegmentFacts
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.node_history import (
    TRIES_MAX,
    MetadataPosition,
    NodeHistory,
    decode_history,
    decode_position,
    encode_position,
)
from oncelog_storage.core.proposals import Proposals
from oncelog_storage.core.retention import (
    LogStart,
    keep_from,
    log_start_of,
    removable_below,
    removable_snapshots,
    segment_start,
)
from oncelog_storage.core.scrubbing import Finding, Looked, look_at, look_on, places

ORDERS = Partition("orders", 0)
NEVER = 2**62

# Checkpoint files.


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "1\n1\norders 0 7\n",
        "0\n2\norders 0 7\n",
        "0\n1\norders 0 7",
        "0\n1\norders 0\n",
        "0\n2\norders 0 7\n/checksum 0 1\n",
    ],
)
def test_a_damaged_checkpoint_is_none(text):
    with pytest.raises(ValueError, match=r"."):
        decode_checkpoint(text)


def test_only_topic_and_number_name_a_partition():
    names = ["orders-0", "a-b-12", "orders", "-3", "x.0af-delete", "meta.properties"]
    found = [("a-b-12", Partition("a-b", 12)), ("orders-0", ORDERS)]
    assert partitions_named(names) == found
    assert properties_of("a=1\n# x\nb = 2\n") == {"a": "1", "b": "2"}


def test_a_topic_id_is_one_with_a_few_damaged_characters():
    stored = encode_topic_id(bytes(16))
    for differing, is_same in ((0, True), (4, True), (5, False)):
        damaged = "?" * differing + stored[differing:]
        assert is_same_topic(damaged, bytes(16)) is is_same
    assert is_same_topic("", bytes(16))


def test_only_the_same_boot_rules_a_power_cut_out():
    rows = (("a", "a", False), ("", "a", False), ("b", "a", True), ("a", "", True))
    assert [may_have_lost_power(known, now) for known, now, _ in rows] == [
        lost for *_, lost in rows
    ]


# The folder's history.


def test_a_history_keeps_the_last_registration_and_its_tries():
    history = NodeHistory().registered("r")
    for number in range(TRIES_MAX + 5):
        history = history.begun(f"t{number}")
    assert history.incarnation_ids[0] == "r"
    assert len(history.incarnation_ids) == TRIES_MAX + 2
    assert history.before(history.incarnation_ids[-1]) == list(history.incarnation_ids[:-1])
    assert NodeHistory().begun("a").incarnation_ids == ("a",)
    unknown = NodeHistory(is_unknown=True)
    assert unknown.begun("a") == unknown


def test_a_history_reads_back_and_knows_damage():
    for history in (NodeHistory(("a", "b")), NodeHistory(("a",), accepts_loss=True)):
        assert decode_history(history.encode()) == history
    position = MetadataPosition(7, 2, "c")
    assert decode_position(encode_position(position)) == position
    with pytest.raises(ValueError, match="checksum"):
        decode_history(NodeHistory(("a",)).encode().replace(b'"a"', b'"b"'))


# Retention.

SIZES = [(0, 100), (10, 100), (20, 50)]


def facts(*newest):
    ends = (10, 20, 30)
    return [
        SegmentFacts(base, end, size, -1, each)
        for (base, size), end, each in zip(SIZES, ends, newest, strict=True)
    ]


@pytest.mark.parametrize(
    ("config", "newest", "high_watermark", "expected"),
    [
        ({"retention_ms": 100}, (0, 0, 950), 30, 20),
        ({"retention_ms": 100}, (0, 900, 0), 30, 10),
        ({"retention_ms": 100}, (0, 0, 0), 30, 30),
        ({"retention_ms": 100}, (0, 0, 0), 15, 10),
        ({"retention_ms": -1}, (0, 0, 0), 30, 0),
        ({"retention_ms": -1, "retention_bytes": 150}, (0, 0, 0), 30, 10),
        ({"retention_ms": -1, "retention_bytes": 0}, (0, 0, 0), 30, 20),
        ({"retention_ms": -1, "retention_bytes": 0}, (0, 0, 0), 15, 15),
        ({"retention_ms": -1, "retention_bytes": 151}, (0, 0, 0), 30, 0),
    ],
)
def test_retention_goes_by_age_and_size(config, newest, high_watermark, expected):
    rules = TopicConfig(**{"retention_bytes": -1, **config})
    assert keep_from(rules, facts(*newest), SIZES, 30, high_watermark, 1000) == expected


def partition_with(*, is_leader=True, sizes=(100, 100, 50), high_watermark=30, **config):
    """Three segments, from 0, 10 and 20 on; the log ends at 30, or where an empty last segment begins."""
    log = log_state(**{"retention_ms": 100, "retention_bytes": -1, **config})
    log.segments = [
        MemorySegment(base, size_bytes=size, created_ms=950)
        for base, size in zip((0, 10, 20), sizes, strict=False)
    ]
    log.log_end_offset = 30 if sizes and sizes[-1] else 10 * max(len(sizes) - 1, 0)
    log.log_start_offset = 3
    partition = partition_of(log)
    partition.high_watermark = high_watermark
    partition.leadership = partition.leadership._replace(is_here=is_leader)
    return partition


@pytest.mark.parametrize(
    ("newest", "given", "expected"),
    [
        ((0, 0, 950), {}, LogStart(20)),
        ((0, 950), {}, LogStart(10)),
        ((0, 0, 0), {}, LogStart(30, rolls=True)),
        # Without timestamps, a segment is as old as its file.
        ((0, -1), {}, LogStart(10)),
        # Never above the high watermark, and a segment stays whole.
        ((0, 0, 0), {"high_watermark": 29}, LogStart(20)),
        ((0, 0, 0), {"high_watermark": 15}, LogStart(10)),
        # The newest is empty: there is nothing in it that could be too old.
        ((0, 0, -1), {"sizes": (100, 100, 0), "high_watermark": 20}, LogStart(20)),
        ((), {"is_leader": False}, LogStart(3)),
        ((), {"is_deleted": False, "is_compacted": True}, LogStart(3)),
        ((), {"sizes": ()}, LogStart(3)),
    ],
)
def test_where_retention_lets_a_log_begin(newest, given, expected):
    assert log_start_of(partition_with(**given), iter(newest), 1000) == expected


def test_only_the_segments_that_decide_are_looked_at():
    """The largest timestamp of an old segment is in a file."""

    def newest():
        yield 0
        yield 950
        raise AssertionError("nobody needs the third")

    assert log_start_of(partition_with(), newest(), 1000) == LogStart(10)


def test_a_log_start_is_a_segments_start():
    assert [segment_start(SIZES, offset) for offset in (0, 9, 10, 99)] == [0, 0, 10, 20]
    assert segment_start([], 5) == 0


def test_what_the_next_start_reads_stays():
    for log_start, replica_count, snapshots, below in (
        (60, 1, [10, 40], 50),
        (45, 1, [10, 40], 45),
        (60, 3, [10, 40], 10),
        (5, 3, [10, 40], 5),
        (60, 3, [40], 0),
    ):
        assert removable_below(log_start, 50, replica_count, snapshots, 20) == below


def test_snapshots_that_a_start_may_need_stay():
    offsets = [10, 20, 30, 40, 50]
    assert removable_snapshots(offsets, 40, 25, 2) == [10]
    assert removable_snapshots(offsets, 50, 5, 2) == [10, 20, 30]
    assert removable_snapshots([40, 50], 50, 5, 2) == []


# Scrubbing.

FIRST, SECOND = batch(0, 3, leader_epoch=1), batch(3, 2, leader_epoch=1)
SEGMENT = FIRST + SECOND
ALL, BOTH = len(SEGMENT), len(FIRST)
EPOCHS = LeaderEpochs([(1, 0)])


def look(data, size_bytes=ALL, end_offset=5, leader_epochs=EPOCHS, *, wanted_bytes=1 << 20):
    view = memoryview(data)
    return look_at(view, 0, size_bytes, 0, end_offset, leader_epochs, wanted_bytes=wanted_bytes)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SEGMENT, Looked(ALL, 5)),
        (SEGMENT[: BOTH + 70], Looked(BOTH, 3)),
        (FIRST[:70], Looked(0, 0, None, BOTH)),
        (FIRST[:20], Looked(0, 0, None, 61)),
        (b"", Looked(ALL, 0, Finding(0, "the file is shorter than it was"))),
    ],
)
def test_a_look_goes_on_behind_whole_batches(data, expected):
    assert look(data, wanted_bytes=len(data)) == expected


def test_a_file_that_is_shorter_than_it_was_is_not_read_for_ever():
    """It ends inside of a batch: as much as that one needs was asked for, and did not come."""
    assert look(FIRST[:70], wanted_bytes=BOTH).finding == Finding(0, "a batch is cut")
    assert look(FIRST[:20], wanted_bytes=61).finding == Finding(0, "a batch header is cut")


def test_a_batch_behind_the_segments_end_is_cut():
    found = look(FIRST[:70], 70, 5, EPOCHS)
    assert found == Looked(70, 0, Finding(0, "a batch is cut"))
    huge = FIRST[:8] + (100 << 20).to_bytes(4, "big") + FIRST[12:]
    assert look(huge, 1 << 30, 5, EPOCHS).finding is not None


def test_what_the_crc_does_not_cover_is_held_against_the_rest():
    wrong_epoch = look(SEGMENT, ALL, 5, LeaderEpochs([(1, 0), (2, 3)]))
    assert wrong_epoch.finding == Finding(BOTH, "leader epoch 1 stands where 2 wrote")
    too_high = look(SEGMENT, ALL, 4, EPOCHS)
    assert too_high.finding == Finding(BOTH, "offset 3 stands before 4")
    assert look(SEGMENT, ALL, -1, EPOCHS) == Looked(ALL, 5)
    rotten = SEGMENT[:70] + b"?" + SEGMENT[71:]
    assert "CRC" in look(rotten, ALL, 5, EPOCHS).finding.reason


def replicated(*sizes, **leadership):
    """Segments from 0, 5, 10, ... on."""
    partition = with_followers()
    partition.leadership = partition.leadership._replace(**leadership)
    partition.log.leader_epochs.assign(1, 0)
    partition.log.segments = [
        MemorySegment(5 * at, size_bytes=size) for at, size in enumerate(sizes)
    ]
    for segment in partition.log.segments:
        segment.end_offset = segment.base_offset + 5
    return partition


def places_of(*partitions):
    return places((one, one.log.segments) for one in partitions)


def test_sealed_segments_that_others_have_too_are_looked_at():
    alone, offline = replicated(10, 10, replica_count=1), replicated(10, 10)
    offline.offline = "its disk is gone"
    both = replicated(30, 20, 10)
    found = places_of(alone, both, offline, replicated(10))
    assert [(one.hosted, one.segment.base_offset) for one in found] == [(both, 0), (both, 5)]
    assert [(one.size_bytes, one.position, one.expected_offset) for one in found] == [
        (30, 0, 0),
        (20, 0, 5),
    ]


def change(partition, what):
    log = partition.log
    match what:
        case "truncated":
            log.truncation_count += 1
        case "cleaned":
            log.segments = [MemorySegment(0, size_bytes=10), *log.segments[1:]]
        case "cut":
            log.segments[0].size_bytes -= 1
        case "newest":
            log.segments = log.segments[:1]


@pytest.mark.parametrize(
    ("what", "is_current"),
    [
        ("nothing", True),
        ("truncated", False),
        ("cleaned", False),
        ("cut", False),
        ("newest", False),
    ],
)
def test_a_segment_that_changed_is_not_looked_at_on(what, is_current):
    partition = replicated(30, 20)
    (place,) = places_of(partition)
    change(partition, what)
    assert place.is_current is is_current


def test_leader_epochs_are_those_of_when_reading_began():
    partition = replicated(30, 20)
    (place,) = places_of(partition)
    partition.log.leader_epochs.truncate_from(0)
    assert place.leader_epochs.latest == 1


@pytest.mark.parametrize("bytes_max", [1, 61, BOTH, BOTH + 1, ALL, 1 << 20])
@pytest.mark.parametrize("rotten_at", [None, 70, BOTH + 70])
def test_looks_of_any_size_find_the_same(bytes_max, rotten_at):
    data = bytearray(SEGMENT)
    if rotten_at is not None:
        data[rotten_at] ^= 1
    (place,) = places_of(replicated(ALL, 10))
    looked = None
    while not place.is_at_end and (looked is None or looked.finding is None):
        looked = walked(look_on(place, bytes_max), data)
        place = place.behind(looked)
    if rotten_at is None:
        assert looked == Looked(ALL, 5)
    else:
        assert looked.finding.position == (0 if rotten_at < BOTH else BOTH)
    assert walked(look_on(place, bytes_max), data).finding is None, "nothing is behind the end"


# Proposals of in-sync replicas.


def proposed(isr=(HERE, OTHER)):
    hosted, proposals = with_followers(), Proposals()
    proposals.propose(hosted, list(isr))
    return hosted, proposals, proposals.to_send()


def answer_of(hosted, code):
    topic, number = hosted.partition
    return types_pb2.PartitionError(topic=topic, partition=number, error_code=code)


def test_a_request_names_what_is_proposed():
    hosted, proposals, sent = proposed()
    request = controller_pb2.AlterPartitionRequest()
    proposals.fill(sent, request.partitions)
    (message,) = request.partitions
    assert (message.partition.topic, message.partition.partition) == hosted.partition
    assert (message.leader_epoch, message.partition_epoch, list(message.isr)) == (5, 0, [1, 2])


def test_a_proposal_is_sent_until_the_image_settles_it():
    hosted, proposals, sent = proposed()
    assert list(sent) == [hosted]
    assert proposals.to_send() == sent
    hosted.replicas.pending = None
    assert proposals.to_send() == {}
    assert (proposals.shrink_count, proposals.expand_count) == (1, 0)
    proposals.propose(hosted, [HERE, OTHER, 3])
    assert proposals.expand_count == 1
    hosted.follow()
    assert proposals.to_send() == {}


def test_what_was_taken_stays_pending_until_the_image():
    hosted, proposals, sent = proposed()
    assert proposals.settle_proposals(sent, []) == ([], [])
    assert hosted.replicas.pending is not None
    assert proposals.to_send() == {}


@pytest.mark.parametrize(
    ("code", "is_settled"),
    [(ErrorCode.INVALID_REQUEST, True), (ErrorCode.FENCED_LEADER_EPOCH, False)],
)
def test_a_refusal_settles_unless_the_image_is_behind(code, is_settled):
    hosted, proposals, sent = proposed()
    answered = proposals.settle_proposals(sent, [answer_of(hosted, code)])
    assert [one.error_code for one in answered.refused] == [code]
    assert answered.settled == ([hosted] if is_settled else [])
    assert (hosted.replicas.pending is None) is is_settled


def test_an_answer_to_an_older_proposal_settles_nothing():
    hosted, proposals, sent = proposed()
    hosted.replicas.pending = None
    proposals.propose(hosted, [HERE])
    answered = proposals.settle_proposals(sent, [answer_of(hosted, ErrorCode.INVALID_REQUEST)])
    assert answered.settled == []
    assert list(proposals.to_send()) == [hosted]


def test_another_controller_may_take_what_one_cannot():
    hosted, proposals, sent = proposed()
    for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
        assert proposals.refused(sent, code) is None
    assert proposals.to_send() == sent
    assert proposals.refused(sent, ErrorCode.STALE_BROKER_EPOCH) == [hosted]
    assert proposals.to_send() == {}
