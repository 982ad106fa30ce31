"""copier: a group that copies one topic into another copies each record below its committed offset once, and
nothing else. Each copy is in the right partition, and in order.

The partition of a copy follows from its original's offset. Originals of one partition have their copies in one
partition in their own order, because a transaction is over before the next one reads on.

The checker compares the two topics alone: copies in the output against originals in the input, up to the group's
final offset. It needs no client's account of a transaction, so it also sees transactions whose outcome no client
knows.
"""

from oncelog_robustness.checkers.evidence import FinalLog, FinalState
from oncelog_robustness.checkers.findings import Findings, place, reader, seen
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, OffsetsFetched, Partition, Read
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import Copier, copy_of, copy_partition, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("copier")
    final = FinalState.of(history)
    for _, copier in facts_of(history, Copier):
        inputs = _logs(final, copier.input_topic)
        outputs = _logs(final, copier.output_topic)
        incomplete = [log for log in [*inputs.values(), *outputs.values()] if not _is_whole(log)]
        if not inputs or not outputs:
            findings.unclear.append(
                f"{copier.input_topic} or {copier.output_topic} was not read at the end"
            )
        elif incomplete:
            read = incomplete[0].read
            findings.unclear.append(
                f"{place(read.topic, read.partition)} was not read from 0 to its end"
            )
        else:
            _judge(findings, history, copier, inputs, outputs)
    return findings.verdict("nothing was set up to be copied")


def _logs(final: FinalState, topic: str) -> dict[Partition, FinalLog]:
    return {spot: log for spot, log in final.committed.items() if spot[0] == topic}


def _is_whole(log: FinalLog) -> bool:
    return log.read.is_complete and log.read.start_offset == 0


def _judge(
    findings: Findings,
    history: History,
    copier: Copier,
    inputs: dict[Partition, FinalLog],
    outputs: dict[Partition, FinalLog],
) -> None:
    copies: dict[str, list[Read]] = {}
    for log in outputs.values():
        for read in log.read.reads:
            copy = copy_of(read.value or "")
            if copy is not None:
                copies.setdefault(copy.original, []).append(read)
    originals = {
        read.value: read for log in inputs.values() for read in log.read.reads if read.value
    }
    for original, many in copies.items():
        findings.judged += 1
        if len(many) > 1:
            findings.broken.append(
                f"{original!r} was copied {len(many)} times by group {copier.group}:"
                f" {seen(many[0])} and {seen(many[1])}"
            )
        if original not in originals:
            findings.broken.append(
                f"group {copier.group} copied {original!r} to {seen(many[0])}, but no final"
                f" read_committed read of {copier.input_topic} shows it"
            )
    ends = _ends(history, copier.group)
    if not all(spot in ends for spot in inputs):
        findings.unclear.append(
            f"nobody asked at the end where group {copier.group} stands in all of"
            f" {copier.input_topic}, so what has no copy may not have been its turn"
        )
    for spot, offset in ends.items():
        for read in inputs[spot].read.reads if spot in inputs else ():
            if read.offset < offset and read.value is not None and read.value not in copies:
                findings.broken.append(
                    f"group {copier.group} stands at {place(*spot, offset)}, but {seen(read)}, which"
                    f" {reader(inputs[spot].read)} shows, has no copy in {copier.output_topic}"
                )
    _judge_places(findings, copier, originals, outputs)


def _judge_places(
    findings: Findings,
    copier: Copier,
    originals: dict[str, Read],
    outputs: dict[Partition, FinalLog],
) -> None:
    for (_, number), log in outputs.items():
        before: dict[Partition, tuple[Read, Read]] = {}
        for read in log.read.reads:
            copy = copy_of(read.value or "")
            original = None if copy is None else originals.get(copy.original)
            if original is None:
                continue
            wanted = copy_partition(original.offset, len(outputs))
            if wanted != number:
                findings.broken.append(
                    f"the copy of {seen(original)} belongs into {place(copier.output_topic, wanted)},"
                    f" but is {seen(read)}"
                )
            spot = (original.topic, original.partition)
            earlier, earlier_copy = before.get(spot, (original, read))
            if earlier.offset > original.offset:
                findings.broken.append(
                    f"{seen(original)} lies before {seen(earlier)}, but its copy {seen(read)} lies"
                    f" behind {seen(earlier_copy)}"
                )
            before[spot] = (original, read)


def _ends(history: History, group: str) -> dict[Partition, int]:
    return {
        (topic, partition): offset
        for fetched in history.all(OffsetsFetched)
        if fetched.is_final and fetched.fetched.group == group
        for topic, partition, offset in fetched.fetched.offsets
    }
