"""token-ring: each token is in exactly one place, and came there one hop after the other.

A token moves round the partitions (places) of a topic, and each hop is a record. To take a token is to commit the
group's offset behind its record and to write the next hop, both or neither. So at the end each token has every hop
from 0 to its last once, each in the place next to the one before. The group has consumed all of them but the last.
"""

from itertools import pairwise

from oncelog_robustness.checkers.evidence import FinalLog, FinalState
from oncelog_robustness.checkers.findings import Findings, place
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, OffsetsFetched, Read
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import TokenRing, facts_of, token_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("token-ring")
    final = FinalState.of(history)
    for _, ring in facts_of(history, TokenRing):
        logs = [final.committed.get((ring.topic, number)) for number in range(ring.places)]
        whole = [log for log in logs if log is not None and _is_whole(log)]
        if len(whole) < ring.places:
            missing = [number for number, log in enumerate(logs) if log is None or log not in whole]
            findings.unclear.append(
                f"{place(ring.topic, missing[0])} of the ring was not read from 0 to its end"
            )
            continue
        consumed = _consumed(history, ring)
        if consumed is None:
            findings.unclear.append(
                f"nobody asked at the end where group {ring.group} stands in all of {ring.topic}, so"
                " a token may have been taken and put nowhere"
            )
        hops = _hops(whole)
        for token in range(ring.tokens):
            findings.judged += 1
            _judge(findings, ring, token, hops.get(token, []), consumed)
        strangers = [token for token in sorted(hops) if not 0 <= token < ring.tokens]
        for token in strangers:
            findings.broken.append(f"{ring.topic} has a token {token}, which nobody put there")
    return findings.verdict("no ring was set up")


def _is_whole(log: FinalLog) -> bool:
    return log.read.is_complete and log.read.start_offset == 0


def _hops(logs: list[FinalLog]) -> dict[int, list[tuple[int, Read]]]:
    """Return, for each token of the ring, its hops in the order of their numbers, each with the read that shows it. A
    token is a value that clients move from partition to partition, each time in one transaction. A hop is its record in
    one partition."""
    found: dict[int, list[tuple[int, Read]]] = {}
    for log in logs:
        for read in log.read.reads:
            token = token_of(read.value or "")
            if token is not None:
                found.setdefault(token.token, []).append((token.hop, read))
    for hops in found.values():
        hops.sort(key=lambda one: one[0])
    return found


def _consumed(history: History, ring: TokenRing) -> dict[int, int] | None:
    """Return the group's final committed offset in each partition of the ring. None if it was not fetched for all
    of them."""
    found: dict[int, int] = {}
    for fetched in history.all(OffsetsFetched):
        if fetched.is_final and fetched.fetched.group == ring.group:
            for topic, number, offset in fetched.fetched.offsets:
                if topic == ring.topic:
                    found[number] = offset
    return found if len(found) == ring.places else None


def _judge(
    findings: Findings,
    ring: TokenRing,
    token: int,
    hops: list[tuple[int, Read]],
    consumed: dict[int, int] | None,
) -> None:
    name = f"token {token} of {ring.topic}"
    if not hops or hops[0][0] != 0:
        findings.broken.append(f"{name} has no hop 0: it is lost")
        return
    for (hop, read), (next_hop, next_read) in pairwise(hops):
        if next_hop != hop + 1:
            problem = "twice" if next_hop == hop else "without a hop between"
            findings.broken.append(
                f"{name} is at {_at(hop, read)} and {_at(next_hop, next_read)}, {problem}"
            )
            return
        if next_read.partition != (read.partition + 1) % ring.places:
            findings.broken.append(
                f"{name} went from {_at(hop, read)} to {_at(next_hop, next_read)}, which is not next"
            )
            return
    if consumed is None:
        return
    for hop, read in hops[:-1]:
        if read.offset >= consumed[read.partition]:
            findings.broken.append(
                f"{name} is at {_at(*hops[-1])}, but group {ring.group} stands at"
                f" {consumed[read.partition]} and will take it from {_at(hop, read)} again"
            )
            return
    if hops[-1][1].offset < consumed[hops[-1][1].partition]:
        findings.broken.append(
            f"{name} was taken from {_at(*hops[-1])} (group {ring.group} stands at"
            f" {consumed[hops[-1][1].partition]}) and put nowhere: it is lost"
        )


def _at(hop: int, read: Read) -> str:
    return f"hop {hop} at {place(read.topic, read.partition, read.offset)} ({read.value!r})"
