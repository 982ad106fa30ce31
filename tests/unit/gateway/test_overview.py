"""What the console says of a cluster in one sentence."""

import pytest

from oncelog_gateway.core.overview import OverviewFacts, verdict_of

ROWS = [
    (OverviewFacts(), "good", "All is well: no transaction is open, every partition has a leader."),
    (OverviewFacts(open_count=3), "good", "All is well: 3 transactions open, none late, every"),
    (OverviewFacts(hanging=["orders-0"]), "bad", "orders-0 is held by a hanging transaction."),
    (
        OverviewFacts(hanging=["orders-0"] * 2, late_count=1, open_count=9),
        "bad",
        "2 partitions held by a hanging transaction; 1 transaction open for longer than its timeout.",
    ),
    (OverviewFacts(leaderless=["orders-1"]), "bad", "orders-1 is without a leader."),
    (OverviewFacts(fenced=[12]), "warn", "node 12 is fenced."),
    (
        OverviewFacts(old_two_phase_count=1, open_count=1),
        "warn",
        "1 two-phase transaction open for longer than 15 minutes.",
    ),
    (OverviewFacts(under_replicated_count=2), "warn", "2 partitions with a replica out of sync."),
    (OverviewFacts(silent_count=1), "warn", "1 coordinator without an answer."),
]


@pytest.mark.parametrize(("facts", "look", "words"), ROWS)
def test_the_gravest_is_told_first(facts, look, words):
    found = verdict_of(facts)
    assert (found.look, found.text.startswith(words)) == (look, True), found
