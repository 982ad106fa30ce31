"""Planted bugs of prepared transactions (KIP-939): another producer may end one, or one ends without a decision."""

from typing import Final

from oncelog_robustness.planted.bug import Bug, Edit

TWO_PHASE_BUGS: Final = (
    Bug(
        name="kept-ended-by-its-former-producer",
        promise="A kept transaction is ended by the newest producer alone; the one that opened it is fenced.",
        source="ADR 0043; KIP-939",
        edits=(
            Edit(
                module="oncelog_coordinator.core.end_txn",
                old="        if identity != txn.owner or event.client_transaction_version < TV2:\n",
                new="        if event.client_transaction_version < TV2:\n",
            ),
        ),
        caught_by=("half-payment",),
        scenario="payments",
        first_seed=3,
    ),
    Bug(
        name="kept-times-out-after-a-replay",
        promise="A kept transaction waits for its decision without a time-out, whatever its owner asked for.",
        source="ADR 0043; KIP-939",
        edits=(
            Edit(
                module="oncelog_coordinator.core.txn_state",
                old="        return not self.is_two_phase\n",
                new="        return self.timeout_ms != TWO_PHASE_TIMEOUT_MS\n",
            ),
        ),
        caught_by=("half-payment",),
        scenario="payments-left",
        first_seed=1,
    ),
    Bug(
        name="second-owner-is-told-the-first-identity",
        promise="The producer that a transaction is kept for gets an identity of its own, which fences the one before.",
        source="ADR 0043; KIP-939",
        edits=(
            Edit(
                module="oncelog_coordinator.core.init_producer_id",
                old="    epoch = txn.owner[1] + 1\n",
                new="    epoch = txn.producer_epoch + 1\n",
            ),
            Edit(
                module="oncelog_coordinator.core.txn_state",
                old="            assert new.owner != old.owner, (old, new)\n",
                new="            pass\n",
            ),
        ),
        caught_by=("illegal-transition", "half-payment"),
        scenario="payments",
        first_seed=1,
    ),
)
