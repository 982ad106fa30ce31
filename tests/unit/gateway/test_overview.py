"""What is wrong with a cluster, since when, and what to do: rows of facts and what is said of them."""

import pytest

from oncelog.ids import Partition
from oncelog_gateway.core.held_back import Holder
from oncelog_gateway.core.node_troubles import Queue, Seen
from oncelog_gateway.core.overview import OverviewFacts, verdict_of
from oncelog_gateway.core.transaction_troubles import BlockedGroup, Hang, Undecided
from oncelog_gateway.core.trouble import Since

HOUR_MS = 3_600_000
ORDERS_0, ORDERS_1 = Partition("orders", 0), Partition("orders", 1)
NOBODY = Holder(None, 77, None, 60_000, True, 2 * HOUR_MS)
PAY = Holder("pay-7", 7, 120_000, 3_000, False)
HANG = Hang(ORDERS_0, NOBODY, 12, 3, 340)
BILLING = BlockedGroup("billing", ORDERS_0, 340, PAY)
LATE = Undecided("pay-7", 120_000, 60_000, True)
UNDECIDED = Undecided("shop-1", HOUR_MS, 2**31 - 1, False)

ROWS = [
    (
        OverviewFacts(hanging=[HANG]),
        "bad",
        "orders-0 is held by a hanging transaction of producer 77, which nobody will end: 340 offsets held back",
        "2 h",
        "oncelog transactions abort --topic orders --partition 0 --start-offset 12 --producer-epoch 3",
        "/partition?topic=orders&partition=0",
    ),
    (
        OverviewFacts(hanging=[HANG._replace(holder=Holder("old", 77, None, 60_000, True))]),
        "bad",
        "orders-0 is held by a hanging transaction of old",
        "at least 1 min",
        "oncelog transactions abort",
        "/partition?",
    ),
    (
        OverviewFacts(hanging=[HANG], blocked=[BILLING._replace(holder=NOBODY)]),
        "bad",
        "orders-0 is held by a hanging transaction of producer 77, which nobody will end: 340 offsets held back; "
        "it blocks group billing",
        "2 h",
        "oncelog transactions abort",
        "/partition?",
    ),
    (
        OverviewFacts(
            blocked=[
                BILLING,
                # Of another partition its last sign of life is another one: it is the same transaction.
                BlockedGroup("billing", ORDERS_1, 60, Holder("pay-7", 7, 120_000, 9_000, False)),
                BlockedGroup("mail", ORDERS_0, 340, PAY),
            ]
        ),
        "warn",
        "pay-7 blocks groups billing and mail: 400 offsets of orders-0 and orders-1 held back",
        "2 min",
        "oncelog transactions terminate pay-7",
        "/transaction?id=pay-7",
    ),
    (
        OverviewFacts(blocked=[BILLING], undecided=[LATE], undecided_count=1),
        "warn",
        "pay-7 blocks group billing: 340 offsets of orders-0 held back; it is open for longer than its timeout",
        "2 min",
        "oncelog transactions explain pay-7",
        "/transaction?id=pay-7",
    ),
    (
        OverviewFacts(blocked=[BILLING._replace(holder=Holder(None, 9, None, None, None))]),
        "warn",
        "producer 9 blocks group billing: 340 offsets of orders-0 held back",
        "",
        "oncelog transactions explain orders-0",
        "/partition?topic=orders&partition=0",
    ),
    (
        OverviewFacts(undecided=[LATE], undecided_count=1),
        "warn",
        "pay-7 is open for longer than its timeout of 1 min",
        "2 min",
        "oncelog transactions explain pay-7",
        "/transaction?id=pay-7",
    ),
    (
        OverviewFacts(undecided=[UNDECIDED], undecided_count=1),
        "warn",
        "shop-1 is two-phase, and nobody has decided it",
        "1 h",
        "oncelog transactions explain shop-1",
        "/transaction?id=shop-1",
    ),
    (
        OverviewFacts(leaderless=[Seen("orders-1", Since(HOUR_MS), (11, 12))]),
        "bad",
        "orders-1 has no leader: nobody can read or write there",
        "1 h",
        "oncelog nodes list",
        "/nodes",
    ),
    (
        OverviewFacts(
            behind=[Seen(f"orders-{one}", Since(one * 60_000, True), (13,)) for one in range(5)]
        ),
        "warn",
        "orders-0, orders-1, orders-2 and 2 more have a replica out of sync, on node 13",
        "at least 4 min",
        "oncelog partitions",
        "/partitions",
    ),
    (
        OverviewFacts(unanswered=[Seen("orders-0", nodes=(1,), what="KAFKA_STORAGE_ERROR")]),
        "bad",
        "orders-0 is offline: files are damaged or missing",
        "",
        "oncelog partitions",
        "/partition?topic=orders&partition=0",
    ),
    (
        OverviewFacts(unanswered=[Seen("orders-0", nodes=(1,), what="REQUEST_TIMED_OUT")]),
        "warn",
        "orders-0 has no answer of its leader (REQUEST_TIMED_OUT): what holds it back is not known",
        "",
        "oncelog nodes list",
        "/nodes",
    ),
    (
        OverviewFacts(unowned=[Seen("transaction shards 0–3", Since(5_000))]),
        "bad",
        "transaction shards 0–3 have no coordinator: their clients wait",
        "5 s",
        "oncelog nodes list",
        "/nodes",
    ),
    (
        OverviewFacts(fenced=[Seen("node 12", Since(60_000), what="storage")]),
        "warn",
        "node 12 (storage) is out of service: dead, frozen or cut off",
        "1 min",
        "oncelog nodes list",
        "/nodes",
    ),
    (
        OverviewFacts(queues=[Queue(12, 2, 90_000), Queue(12, 1, 95_000), Queue(13, 9, 50)]),
        "warn",
        "3 markers wait for node 12: decided transactions are not complete, and their producers wait too",
        "1 min 35 s",
        "oncelog transactions markers",
        "/nodes",
    ),
    (
        OverviewFacts(silent={"transactions": ["node 21 did not answer"]}),
        "warn",
        "node 21 did not answer: whether a transaction hangs or is late is not known",
        "",
        "oncelog nodes list",
        "/nodes",
    ),
]


@pytest.mark.parametrize(("facts", "look", "sentence", "since", "command", "page"), ROWS)
def test_a_trouble_says_what_since_when_and_what_to_do(facts, look, sentence, since, command, page):
    (found,) = verdict_of(facts).troubles
    assert found.look == look
    assert found.sentence.startswith(sentence)
    assert found.since.words == since
    assert found.to_do.endswith(".")
    assert found.command.startswith(command)
    assert found.page.startswith(page)


def test_the_gravest_is_told_first_and_the_others_are_counted():
    found = verdict_of(
        OverviewFacts(
            hanging=[HANG],
            undecided=[LATE],
            undecided_count=1,
            fenced=[Seen("node 12", what="storage")],
            leaderless=[Seen("orders-1")],
        )
    )
    assert [one.subject for one in found.troubles] == ["orders-1", "orders-0", "pay-7", "node 12"]
    assert found.look == "bad"
    assert found.text == "orders-1 has no leader: nobody can read or write there; and 3 more."
    assert found.counts == "2 to act on, 2 to look at."
    assert set(found.looked_at) == {"coordinators", "partitions", "groups", "markers"}


def test_a_hanging_one_that_blocks_a_group_comes_first():
    older = HANG._replace(partition=ORDERS_1, holder=Holder(None, 78, None, 0, True, 9 * HOUR_MS))
    blocked = BILLING._replace(holder=NOBODY)
    found = verdict_of(OverviewFacts(hanging=[older, HANG], blocked=[blocked]))
    assert [one.subject for one in found.troubles] == ["orders-0", "orders-1"]
    assert found.troubles[0].groups == ("billing",)


def test_of_very_many_the_first_are_told_and_the_rest_counted():
    every = [
        BlockedGroup(f"g-{one}", ORDERS_0, 1, Holder(f"t-{one}", one, 20_000 + one, 0, False))
        for one in range(200)
    ]
    hangs = [HANG._replace(partition=Partition("many", one)) for one in range(2_000)]
    late = [LATE._replace(transactional_id=f"late-{one}") for one in range(10)]
    found = verdict_of(
        OverviewFacts(hanging=hangs, blocked=every, undecided=late, undecided_count=9_000)
    )
    words = [one.sentence for one in found.troubles]
    assert len(words) == 18
    assert "1995 partitions more held by a hanging transaction" in words
    assert "195 transactions more block 195 groups" in words
    assert "8995 transactions more open for too long" in words
    assert words[6].startswith("t-199 blocks group g-199")


def test_a_cluster_that_is_well_says_what_was_looked_at():
    found = verdict_of(
        OverviewFacts(node_count=12, partition_count=20, open_count=3, group_count=4)
    )
    assert (found.look, found.troubles) == ("good", ())
    assert found.text == (
        "All is well: 12 nodes live; every shard has a coordinator; 20 partitions have a leader; every replica is in "
        "sync; 3 open transactions, none hangs or is late; 4 groups, none is blocked; no marker waits."
    )
    some = verdict_of(OverviewFacts(partition_count=3_000, unasked_count=1_000))
    assert "what holds 1000 partitions back was not asked" in some.text


def test_an_unknown_answer_is_not_taken_for_well():
    silent = {"transactions": ["node 21 did not answer"], "groups": ["node 21 did not answer"]}
    found = verdict_of(OverviewFacts(silent=silent))
    assert [one.check for one in found.troubles] == ["transactions"], "one cause is told once"
