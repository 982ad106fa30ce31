"""Any log, sound or not: the audit's walks accuse what the checkers accuse, and know how long the LSO stood still."""

from dataclasses import replace
from itertools import groupby, pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from oncelog_robustness.observations import ReplicaLog
from tests.integration.log_audit.beside_checkers import (
    accused_by_checkers,
    accused_by_walks,
    rows_of,
    walked,
)
from tests.worlds.robustness.cluster.seen import data, marker

from oncelog_server.log_audit.core.rows import Kind

PRODUCERS = 3
STEP = st.tuples(
    st.sampled_from(["data", "data", "data", "plain", "marker", "anonymous", "bare"]),
    st.integers(0, PRODUCERS - 1),
    st.sampled_from([0] * 8 + [1, 2, -1, -3]),
    st.sampled_from([0] * 8 + [1, -1]),
    st.sampled_from([0] * 10 + [1, 5, -2]),
    st.integers(1, 3),
    st.sampled_from([True] * 9 + [False]),
    st.sampled_from([0] * 6 + [1]),
)
"""What, by whom, the sequence's and the epoch's and the offset's faults, records, is it sound, leader epochs more."""


def made(steps, start, compacted):
    batches, offset, leader_epoch = [], start, 0
    due = [[0, 0] for _ in range(PRODUCERS)]
    for what, who, sequence_off, epoch_off, offset_off, count, is_sound, elections in steps:
        offset = max(0, offset + offset_off)
        leader_epoch += elections
        epoch, sequence = due[who]
        epoch, sequence = max(0, epoch + epoch_off), max(0, sequence + sequence_off)
        if what == "marker":
            one = marker(offset, who, epoch, "commit" if count > 1 else "abort")
            due[who] = [epoch, sequence if not epoch_off else 0]
        elif what == "anonymous":
            one = data(offset, count=count)
        else:
            one = data(offset, who, epoch, sequence, count=count, plain=what == "plain")
            if what == "bare":
                one = replace(one, base_sequence=-1, last_sequence=-1)
            else:
                due[who] = [epoch, sequence + count]
        batches.append(replace(one, is_sound=is_sound, leader_epoch=leader_epoch))
        offset = batches[-1].last_offset + 1
    while batches and not batches[-1].is_sound:
        batches.pop()
    end = batches[-1].last_offset + 1 if batches else start
    return ReplicaLog(1, "orders", 0, start, end, tuple(batches), is_compacted=compacted)


LOGS = st.builds(made, st.lists(STEP, max_size=16), st.sampled_from([0, 0, 0, 40]), st.booleans())


@given(LOGS)
@example(made([("data", 0, 2, 0, 0, 1, True, 0)], 0, False))
@example(made([("data", 1, 0, 0, 0, 1, True, 0), ("data", 0, 2, 0, 0, 1, True, 1)], 0, False))
@example(made([("marker", 0, 0, 0, 0, 1, True, 0), ("data", 0, 2, 0, 0, 1, True, 1)], 0, False))
@example(made([("data", 0, 0, 0, 0, 1, False, 0), ("data", 0, 1, 0, 0, 1, True, 0)], 0, False))
def test_walks_accuse_what_the_checkers_accuse(log):
    if log.batches:
        assert accused_by_walks(rows_of(log)) == accused_by_checkers(log)


@given(LOGS)
def test_standstills_are_what_a_plain_model_says(log):
    if not log.batches or log.start_offset:
        return
    rows = rows_of(log)
    told = {
        (one.offset, one.end_offset, one.producer_id)
        for one in walked(rows)
        if one.kind == Kind.STANDSTILL
    }
    assert told == set(standstills(log))


def standstills(log):
    """By what the LSO is at each batch: the first offset of the oldest open transaction, in the order of the log."""
    opened, held = {}, []
    for number, batch in enumerate(log.batches):
        if batch.is_sound and batch.producer_id >= 0:
            if batch.marker:
                opened.pop(batch.producer_id, None)
            elif batch.is_transactional and not batch.is_control:
                opened.setdefault(batch.producer_id, (number, batch.base_offset))
        oldest = (
            min((place, first, who) for who, (place, first) in opened.items()) if opened else None
        )
        held.append((oldest, batch.base_offset))
    held.append((None, log.batches[-1].last_offset + 1))
    runs = [(key, list(run)) for key, run in groupby(held, key=lambda one: one[0])]
    for (oldest, _), (_, following) in pairwise(runs):
        if oldest is not None:
            _, first, who = oldest
            yield first, following[0][1], who
