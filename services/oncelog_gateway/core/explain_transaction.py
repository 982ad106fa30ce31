"""Rules that explain the state of a transactional id: facts in, a diagnosis out.

Rules are tried in order, and the first one that fits gives the diagnosis. A rule reads the state at the coordinator,
what partition leaders tell, and the newest events. Events may be missing: then a rule that needs them does not fit.
"""

from collections.abc import Callable, Sequence
from typing import Final

from oncelog.telemetry.events import Event
from oncelog_gateway.core.diagnosis import (
    RECENT_MS,
    Command,
    Diagnosis,
    Evidence,
    TransactionFacts,
    ago,
    client_of,
    seconds,
)
from oncelog_gateway.core.endings import shell_word, terminate_command
from oncelog_gateway.core.explain_undecided import explain_undecided
from oncelog_gateway.core.held_back import LONG_MS
from oncelog_gateway.core.transaction_events import (
    aborted_after,
    activity,
    last_activity,
    last_change,
    last_heard,
    loop_finding,
    newest,
    old_client,
    repeated_refusals,
    silence_of,
    state_evidence,
    timeline_command,
    what_is_held,
    where_readers_stop,
)
from oncelog_gateway.core.wording import time_of_day

HUNG_MS: Final = 5_000
"""A producer that was silent for longer than this counts as hung."""
_FENCED: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
_NOT_READY: Final = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
)


def explain_transaction(facts: TransactionFacts) -> Diagnosis:
    for rule in _RULES:
        found = rule(facts)
        if found is not None:
            return found
    return _healthy(facts)


def _shard_loads(facts: TransactionFacts) -> Diagnosis | None:
    if facts.error not in _NOT_READY:
        return None
    name = f"shard {facts.shard} of __transaction_state"
    if facts.coordinator < 0:
        verdict = f"No coordinator owns {name}. Clients of {_quoted(facts)} are told COORDINATOR_NOT_AVAILABLE."
        does = "shows which coordinators live: start one"
    else:
        verdict = (
            f"The coordinator on node {facts.coordinator} is loading {name}. Until it has read the shard, clients of "
            f"{_quoted(facts)} are told {facts.error} and ask again."
        )
        does = "shows whether the node lives, and who leads the shard's partition"
    changes = [f"{ago(facts.now, e.time_ms)}: {e.text('state')}" for e in facts.shard_events[-4:]]
    loop = repeated_refusals(facts, _NOT_READY)
    asks = () if loop is None else (loop_finding(facts, loop),)
    return Diagnosis(
        "shard-loads",
        verdict,
        (*asks, *(f"The shard, {one}." for one in changes)),
        (Evidence("answer", facts.error, f"coordinator on node {facts.coordinator}"),),
        (Command("oncelog nodes list", does), timeline_command(facts)),
        facts.unknown,
    )


def _unknown_id(facts: TransactionFacts) -> Diagnosis | None:
    if facts.state is not None:
        return None
    if facts.error == "TRANSACTIONAL_ID_NOT_FOUND":
        return Diagnosis(
            "unknown-id",
            f"No coordinator knows {_quoted(facts)}: nobody has used it, or not for longer than "
            "transactional.id.expiration.ms.",
            next_commands=(Command("oncelog transactions list", "shows every id that is known"),),
            unknown=facts.unknown,
        )
    return Diagnosis(
        "unknown",
        f"The coordinator of {_quoted(facts)} on node {facts.coordinator} did not answer ({facts.error}).",
        next_commands=(
            Command("oncelog nodes list", "shows whether the node lives"),
            timeline_command(facts),
        ),
        unknown=facts.unknown,
    )


def _marker_waits(facts: TransactionFacts) -> Diagnosis | None:
    if facts.state not in ("PrepareCommit", "PrepareAbort"):
        return None
    outcome = "commit" if facts.state == "PrepareCommit" else "abort"
    decided = next((e for e in reversed(facts.events) if e.text("state") == facts.state), None)
    written = {
        (e.text("topic"), e.number("partition"))
        for e in facts.events
        if decided is not None
        and e.kind == "marker"
        and e.time_ms >= decided.time_ms
        and e.number("error_code") == 0
    }
    waiting = [one for one in facts.partitions if tuple(one.partition) not in written]
    dead = [one for one in waiting if one.leader < 0]
    stuck = dead or [one for one in waiting if one.failure] or waiting
    names = ", ".join(one.name for one in stuck) or "some partitions"
    findings = []
    if decided is not None:
        findings.append(f"The {outcome} was decided {ago(facts.now, decided.time_ms)}.")
    commands = [Command("oncelog transactions markers", "shows the queues of the marker senders")]
    if dead:
        nodes = sorted({node for one in dead for node in one.dead_replicas})
        verdict = (
            f"The {outcome} is decided, but {names} has no leader, so its marker cannot be written. The producer is "
            "told CONCURRENT_TRANSACTIONS until it is."
        )
        if nodes:
            listed = ", ".join(map(str, nodes))
            findings.append(f"Replicas on nodes that do not live: {listed}.")
            commands.insert(
                0, Command("oncelog nodes list", f"shows them: start node {listed} again")
            )
    else:
        verdict = (
            f"The {outcome} is decided, and {names} has not taken its marker yet. The producer is told "
            "CONCURRENT_TRANSACTIONS until it has."
        )
        commands.insert(0, Command("oncelog partitions list", "shows who leads the partition"))
    loop = repeated_refusals(facts, {"CONCURRENT_TRANSACTIONS"})
    if loop is not None:
        findings.append(loop_finding(facts, loop))
    failed = [e for e in facts.events if e.kind == "marker_failed"][-1:]
    findings += [f"Last try, {ago(facts.now, e.time_ms)}: {e.text('error')}." for e in failed]
    for queue in facts.queues:
        where = "no leader" if queue.node is None else f"node {queue.node}"
        findings.append(
            f"Marker sender {queue.marker_sender} holds {queue.marker_count} for {where}, the oldest for "
            f"{seconds(queue.oldest_age_ms)}."
        )
    return Diagnosis(
        "marker-stuck",
        verdict,
        tuple(findings),
        state_evidence(facts),
        (*commands, timeline_command(facts)),
        facts.unknown,
    )


def _concurrent_loop(facts: TransactionFacts) -> Diagnosis | None:
    loop = repeated_refusals(facts, {"CONCURRENT_TRANSACTIONS"})
    if loop is None:
        return None
    return Diagnosis(
        "concurrent-transactions",
        f"{client_of(loop[-1])[:1].upper()}{client_of(loop[-1])[1:]} asks for {loop[-1].text('request')} before the "
        "transaction before it is complete, and is told CONCURRENT_TRANSACTIONS each time.",
        (loop_finding(facts, loop), *last_change(facts)),
        state_evidence(facts),
        (
            Command("oncelog transactions markers", "shows markers that wait"),
            timeline_command(facts),
        ),
        facts.unknown,
    )


def _ended_then_refused(facts: TransactionFacts) -> Diagnosis | None:
    """Explain a producer that came back after the server had ended its transaction. Its requests are fenced, or refused
    because it has no transaction. None: this is not the case.
    """
    ended = newest(facts.events, lambda e: e.text("bump") in ("takeover", "timeout", "operator"))
    if ended is None or _goes_on_after(facts, ended):
        return None
    aborts = ended.text("state") == "PrepareAbort"
    refused = [
        e for e in facts.events if e.kind == "refused" and e.time_ms >= ended.time_ms - 1_000
    ]
    lost = newest(
        refused, lambda e: e.text("error") in _FENCED or e.text("error") == "INVALID_TXN_STATE"
    )
    if lost is None and not aborts:
        return None
    first = _first_of_bump(facts, ended)
    silence_ms = silence_of(facts, first)
    who = client_of(lost) if lost is not None else old_client(facts, first)
    if lost is not None and lost.text("error") == "INVALID_TXN_STATE":
        return _no_transaction(facts, first, lost, who)
    return _fenced(facts, first, lost, who, silence_ms)


def _no_transaction(facts: TransactionFacts, ended: Event, lost: Event, who: str) -> Diagnosis:
    why = _cause(ended)
    return Diagnosis(
        "invalid-txn-state",
        f"{_capital(who)} sent {lost.text('request')} for a transaction that had ended: {why}. So it was told "
        "INVALID_TXN_STATE.",
        (
            f"{_capital(why)} {ago(facts.now, ended.time_ms)}; the transaction was aborted.",
            f"{lost.text('request')} came {seconds(lost.time_ms - ended.time_ms)} later.",
            "Nothing of that transaction is visible to read_committed.",
        ),
        state_evidence(facts),
        (_raise_timeout(facts), timeline_command(facts)),
        facts.unknown,
    )


def _fenced(
    facts: TransactionFacts, ended: Event, lost: Event | None, who: str, silence_ms: int
) -> Diagnosis:
    by = {
        "takeover": f"{client_of(ended)} took the transactional.id over",
        "timeout": f"the transaction was open for longer than its timeout of {seconds(ended.number('timeout_ms'))}",
        "operator": f"an operator {_operators_act(ended)} the transaction",
    }[ended.text("bump")]
    hung = silence_ms >= HUNG_MS
    incident = f"fenced-by-{ended.text('bump')}"
    before, after = ended.number("previous_producer_epoch"), ended.number("producer_epoch")
    if hung and ended.text("bump") == "takeover":
        incident = "hung-then-fenced"
        verdict = (
            f"{_capital(who)} was silent for {seconds(silence_ms)}; then {by}, which fenced it."
        )
    else:
        verdict = f"{_capital(who)} is fenced: {by}."
    findings = [
        f"The producer epoch went from {before} to {after}, {ago(facts.now, ended.time_ms)}."
    ]
    last = last_activity(facts, ended)
    if hung and last is not None:
        findings.append(
            f"The last that was heard of the producer, {seconds(silence_ms)} before: {activity(last)}."
        )
    if ended.text("state") == "PrepareAbort" or aborted_after(facts, ended):
        findings.append("Its open transaction was aborted; read_committed shows nothing of it.")
    if lost is not None:
        findings.append(
            f"Its {lost.text('request')} was refused with {lost.text('error')} {ago(facts.now, lost.time_ms)}."
        )
    else:
        findings.append("It has not come back since; its next request will be refused.")
    commands = [timeline_command(facts)]
    if ended.text("bump") == "timeout":
        commands.insert(0, _raise_timeout(facts))
    elif ended.text("bump") == "takeover":
        commands.insert(
            0,
            Command(
                f"oncelog transactions timeline {shell_word(facts.transactional_id)} --follow",
                "shows whether two clients go on taking it from each other: give each a transactional.id of its own",
            ),
        )
    return Diagnosis(
        incident,
        verdict,
        tuple(findings),
        (
            Evidence("cause", ended.text("cause"), f"coordinator on node {ended.node}"),
            *state_evidence(facts),
        ),
        tuple(commands),
        facts.unknown,
    )


def _is_open(facts: TransactionFacts) -> Diagnosis | None:
    if facts.state != "Ongoing":
        return None
    left_ms = facts.start_ms + facts.timeout_ms - facts.now
    held = [one for one in facts.partitions if one.held_back]
    client = old_client(facts, None)
    verdict = f"The transaction is open for {seconds(facts.age_ms)}, and its producer lives as far as is known."
    if held:
        verdict = f"The transaction of {client} is open for {seconds(facts.age_ms)} and {what_is_held(held)}."
    findings = [
        f"It ends when its producer ends it, or in {seconds(max(left_ms, 0))} by its timeout of "
        f"{seconds(facts.timeout_ms)}.",
        *last_heard(facts),
        *where_readers_stop(held),
    ]
    return Diagnosis(
        "open-and-slow" if held and facts.age_ms >= LONG_MS else "open",
        verdict,
        tuple(findings),
        state_evidence(facts),
        (
            timeline_command(facts),
            Command(
                terminate_command(facts.transactional_id),
                "shows what ending it now would do; with --execute it fences the producer",
            ),
        ),
        facts.unknown,
    )


def _last_aborted(facts: TransactionFacts) -> Diagnosis | None:
    """Explain a transactional id whose last transaction was aborted; None: it was not. This is no healthy state: what
    was written is lost, even if the events that say why are gone.
    """
    changes = [e for e in facts.events if e.kind == "transaction"]
    ended = newest(changes, lambda e: e.text("state") in ("CompleteCommit", "CompleteAbort"))
    is_last = ended is not None and ended.text("state") == "CompleteAbort"
    if facts.state != "CompleteAbort" and not (facts.state == "Empty" and is_last):
        return None
    ended_ms = facts.changed_ms if facts.state == "CompleteAbort" else -1
    if ended is not None and is_last:
        ended_ms = ended.time_ms
    findings = []
    if ended_ms >= 0:
        at = time_of_day(ended_ms, facts.now)
        findings.append(f"It ended {ago(facts.now, ended_ms)}, at {at}.")
    return Diagnosis(
        "last-aborted",
        "Its last transaction was aborted: read_committed shows nothing of it. No transaction is open, and nothing "
        "waits for it.",
        (*findings, _why_aborted(facts, changes)),
        state_evidence(facts),
        (timeline_command(facts),),
        facts.unknown,
    )


def _why_aborted(facts: TransactionFacts, changes: Sequence[Event]) -> str:
    decided = newest(
        changes,
        lambda e: e.text("state") == "PrepareAbort" or e.text("cause") == "empty_abort",
    )
    committed = newest(changes, lambda e: e.text("state") == "CompleteCommit")
    if decided is None or (committed is not None and committed.time_ms > decided.time_ms):
        since = facts.remembered_since_ms
        reach = (
            "no event is remembered"
            if since is None
            else f"events reach back to {time_of_day(since, facts.now)}"
        )
        return f"Why is no longer remembered: {reach}."
    if decided.text("bump") in ("takeover", "timeout", "operator"):
        return f"Why: {_cause(decided)}."
    if decided.text("request") == "EndTxn":
        return f"Why: {old_client(facts, None)} aborted it itself."
    return f"Why: {decided.text('request')} of {client_of(decided)}."


def _healthy(facts: TransactionFacts) -> Diagnosis:
    outcome = {
        "CompleteCommit": "Its last transaction was committed",
        "Empty": "Its producer is initialised",
    }.get(facts.state or "", f"It is in state {facts.state}")
    return Diagnosis(
        "healthy",
        f"{outcome}, no transaction is open, and nothing waits for it.",
        last_change(facts),
        state_evidence(facts),
        (timeline_command(facts),),
        facts.unknown,
    )


_RULES: Final[tuple[Callable[[TransactionFacts], Diagnosis | None], ...]] = (
    _shard_loads,
    _unknown_id,
    _marker_waits,
    explain_undecided,
    _ended_then_refused,
    _concurrent_loop,
    _is_open,
    _last_aborted,
)


# ---------------------------------------------------------------------------------------------------- events


def _first_of_bump(facts: TransactionFacts, ended: Event) -> Event:
    """Return the event that fenced the old producer. InitProducerId over an open transaction raises the epoch twice:
    for the abort, then for the new producer. The first of these is meant.
    """
    same = [
        e
        for e in facts.events
        if e.text("bump") == ended.text("bump")
        and ended.time_ms - e.time_ms <= HUNG_MS
        and e.text("client_id") == ended.text("client_id")
    ]
    return same[0] if same else ended


def _goes_on_after(facts: TransactionFacts, ended: Event) -> bool:
    """True if the fencing that the event `ended` reports is no trouble any more: a later transaction was committed, and
    no producer was fenced lately.
    """
    works = any(
        e.kind == "transaction"
        and e.text("state") == "CompleteCommit"
        and e.time_ms > ended.time_ms
        for e in facts.events
    )
    refused = newest(facts.events, lambda e: e.kind == "refused" and e.text("error") in _FENCED)
    return works and (refused is None or facts.now - refused.time_ms > RECENT_MS)


def _operators_act(ended: Event) -> str:
    if ended.text("request") != "CompletePrepared":
        return "terminated"
    return "committed" if ended.text("state") == "PrepareCommit" else "aborted"


def _cause(ended: Event) -> str:
    return {
        "timeout": f"its timeout of {seconds(ended.number('timeout_ms'))} passed",
        "operator": f"an operator {_operators_act(ended)} it",
        "takeover": f"{client_of(ended)} took the transactional.id over",
    }[ended.text("bump")]


# -------------------------------------------------------------------------------------------------- commands


def _quoted(facts: TransactionFacts) -> str:
    return repr(facts.transactional_id)


def _raise_timeout(facts: TransactionFacts) -> Command:
    return Command(
        "transaction.timeout.ms of the producer",
        f"make it longer than the longest pause of the application; it is {seconds(facts.timeout_ms)} now",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
