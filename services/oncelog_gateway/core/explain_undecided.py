"""Rules that explain why a two-phase transaction is open, and who decides it (KIP-939, ADR 0043)."""

from oncelog_gateway.core.diagnosis import Command, Diagnosis, TransactionFacts, seconds
from oncelog_gateway.core.endings import complete_command
from oncelog_gateway.core.prepared import prepared_text
from oncelog_gateway.core.transaction_events import (
    last_heard,
    old_client,
    state_evidence,
    timeline_command,
    what_is_held,
    where_readers_stop,
)


def explain_undecided(facts: TransactionFacts) -> Diagnosis | None:
    """Explain an open two-phase transaction; None: there is none. Its application decides it, and the other system that
    the application wrote to knows how (KIP-939).
    """
    if facts.state != "Ongoing" or not facts.is_two_phase:
        return None
    prepared = prepared_text(facts.producer_id, facts.producer_epoch)
    owner = None if facts.owner is None else prepared_text(*facts.owner)
    held = [
        one
        for one in facts.partitions
        if one.held_back and one.holder is not None and one.holder.producer_id == facts.producer_id
    ]
    verdict = f"The two-phase transaction {prepared} of {old_client(facts, None)} is open for {seconds(facts.age_ms)}"
    if held:
        verdict += f" and {what_is_held(held)}"
    findings = [
        f"The application stored in its database what it decided. Compare that text with {prepared}. The same text: "
        "commit. Another text, or none: abort.",
        "Stop the application before you decide: it may be about to decide itself."
        if owner is None
        else f"It was kept for the newer producer {owner}, which may only end it. Stop that application before you "
        "decide.",
    ]
    commands = (
        Command(
            complete_command(facts.transactional_id, prepared, outcome),
            f"where the database holds {held_by_database}; shows what it would do, and does it with --execute",
        )
        for outcome, held_by_database in (
            ("commit", prepared),
            ("abort", f"another text than {prepared}, or none"),
        )
    )
    return Diagnosis(
        "two-phase-undecided",
        f"{verdict}. No time-out ends it: its application does, or an operator.",
        (*findings, *last_heard(facts), *where_readers_stop(held)),
        state_evidence(facts),
        (*commands, timeline_command(facts)),
        facts.unknown,
    )
