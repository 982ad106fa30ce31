"""The same logs by the walks of the audit and by the checkers of the robustness suite: what each of them accuses."""

import re
from itertools import groupby

from oncelog_robustness.checkers import cluster_holes, cluster_open_transactions, cluster_sequences
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations

from oncelog_server.log_audit.core.log_walk import LogWalk
from oncelog_server.log_audit.core.producer_walk import ProducerWalk
from oncelog_server.log_audit.core.rows import BatchRow, Kind, LogFacts

CHECKERS = {
    "sequence": (
        cluster_sequences.check_sequences,
        r"(\S+-\d+) on node \d+: producer (\d+) wrote sequence \d+ of epoch \d+ at (-?\d+)",
    ),
    "epoch": (
        cluster_sequences.check_producer_epochs,
        r"(\S+-\d+) on node \d+: producer (\d+) wrote \w+ of epoch \d+ at (-?\d+)",
    ),
    "hole": (
        cluster_holes.check,
        r"(\S+-\d+) on node \d+: behind the batch -?\d+\.\.(-?\d+) stands one at (-?\d+)",
    ),
    "open": (
        cluster_open_transactions.check,
        r"(\S+-\d+): the transaction of producer (\d+) epoch \d+ is open since offset (-?\d+)",
    ),
}
FAMILIES = {
    Kind.SEQUENCE_GAP: "sequence",
    Kind.DUPLICATE: "sequence",
    Kind.EPOCH_WENT_BACK: "epoch",
    Kind.HOLE: "hole",
    Kind.OVERLAP: "hole",
    Kind.OPEN: "open",
    Kind.HANGING: "open",
}


def accused_by_checkers(log, states=()):
    """(family, partition, number, number) of one log; each proof is a sentence."""
    seen = Observations(logs=[log], states=list(states), is_healed=True)
    found = set()
    for family, (check, pattern) in CHECKERS.items():
        verdict = check(History(), seen)
        if verdict.answer is not Answer.BROKEN:
            continue
        assert not verdict.proof[-1].startswith("and "), "not all are told: make the log shorter"
        for sentence in verdict.proof:
            if match := re.match(pattern, sentence):
                partition, first, second = match.groups()
                # A hole begins behind the batch that the sentence names.
                number = int(first) + (family == "hole")
                found.add((family, partition, number, int(second)))
    return found


def accused(event):
    """The same of an event of a walk; None for what the checkers do not look for."""
    family = FAMILIES.get(event.kind)
    if family is None:
        return None
    partition = f"{event.topic}-{event.partition}"
    if family == "hole":
        return family, partition, event.offset, event.end_offset
    return family, partition, event.producer_id, event.offset


def rows_of(log):
    """What the audit reads of such a log."""
    return [
        BatchRow(
            replica=f"node {log.node_id}",
            topic=log.topic,
            partition=log.partition,
            segment=0,
            position=number,
            log_start=log.start_offset,
            is_compacted=log.is_compacted,
            base_offset=one.base_offset,
            last_offset=one.last_offset,
            leader_epoch=one.leader_epoch,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            base_sequence=one.base_sequence,
            last_sequence=one.last_sequence,
            is_transactional=one.is_transactional,
            is_control=one.is_control,
            marker=one.marker,
            time_ms=1000 + number,
            is_sound=one.is_sound,
            unreadable_bytes=0,
        )
        for number, one in enumerate(log.batches)
    ]


def walked(rows):
    """All events of one log, as Spark's tasks make them."""
    log_walk = LogWalk(rows[0])
    events = [event for row in rows for event in log_walk.add(row)] + list(log_walk.end())
    (told,) = [one for one in events if one.kind == Kind.LOG] or (None,)
    if told is None:
        return events
    damaged = tuple(one.offset for one in events if one.kind == Kind.DAMAGED)
    facts = LogFacts(told.outcome == "whole", told.expected, damaged)
    owned = [row for row in rows if row.is_sound and row.producer_id >= 0]
    for _, batches in groupby(sorted(owned, key=_producer), key=lambda one: one.producer_id):
        producer_walk = ProducerWalk(facts)
        events += [event for row in batches for event in producer_walk.add(row)]
    return events


def _producer(row):
    return row.producer_id, row.segment, row.position


def accused_by_walks(rows):
    return {found for event in walked(rows) if (found := accused(event))}
