"""Whether a producer has an epoch of its own in each transaction, and what to do where it has not."""

import pytest

from oncelog_gateway.core.epoch_use import epoch_advice, epoch_use


@pytest.mark.parametrize(
    ("state", "version", "level", "text", "command"),
    [
        ("Ongoing", 0, 0, "transaction.version is 0", "oncelog features set transaction.version 2"),
        ("Ongoing", 0, 1, "transaction.version is 1", "oncelog features set transaction.version 2"),
        ("CompleteCommit", 0, 2, "A client that knows KIP-890", ""),
        ("CompleteAbort", 1, 2, "A client that knows KIP-890", ""),
    ],
)
def test_a_shared_epoch_says_what_to_do(state, version, level, text, command):
    found = epoch_advice(state, version, level)
    assert text in found.text
    assert found.command == command
    assert epoch_use(state, version).startswith("the same for many transactions")


@pytest.mark.parametrize(("state", "version"), [("Ongoing", 2), ("Empty", 0), ("Dead", 0)])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_nothing_is_said_where_nothing_is_known_or_wrong(state, version, level):
    assert epoch_advice(state, version, level) is None


def test_an_id_that_began_nothing_has_no_use_of_epochs():
    assert epoch_use("Empty", 0) == "–"
    assert "KIP-890" in epoch_use("Empty", 2)
