"""Rules that explain a producer id without a transactional id, and anything whose coordinator does not answer."""

import shlex
from collections.abc import Sequence

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_gateway.core.diagnosis import Command, Diagnosis, Evidence

NAMES_MAX = 5


def explain_idle_producer(
    producer_id: int, written: Sequence[Partition], unknown: Sequence[str]
) -> Diagnosis:
    """Return the diagnosis of a producer id without an open transaction. `written` are the partitions whose producer
    state has it. `unknown` says what could not be asked.
    """
    nobody = f"No transactional.id has producer id {producer_id}"
    if written:
        return Diagnosis(
            "healthy",
            f"{nobody}; {names_of(written)} {'remembers' if len(written) == 1 else 'remember'} it, and it has no "
            "transaction open there: it is an idempotent producer, or one of long ago.",
            next_commands=(
                Command(
                    f"oncelog transactions describe-producers --topic {shlex.quote(written[0].topic)} "
                    f"--partition {written[0].partition}",
                    "shows its epoch, its sequence and its last record",
                ),
            ),
            unknown=tuple(unknown),
        )
    return Diagnosis(
        "unknown" if unknown else "unknown-id",
        f"{nobody}, and no partition that answered remembers it"
        + ("." if unknown else ": it never wrote, or its records are gone and so is it."),
        next_commands=(Command("oncelog transactions list", "shows every id with its producer"),),
        unknown=tuple(unknown),
    )


def explain_silence(
    what: str, shard: str, node_id: int, error: str, unknown: Sequence[str] = ()
) -> Diagnosis:
    """Return the diagnosis of something whose coordinator refused with `error` or did not answer. `what` names it in
    the text. `node_id` -1: no coordinator owns its shard.
    """
    loads = error in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")
    if node_id < 0:
        verdict = (
            f"No coordinator owns {shard}, so {what} cannot be described, and its clients wait."
        )
    elif loads:
        verdict = f"The coordinator on node {node_id} is loading {shard}. Until it has read the shard, {what} waits."
    else:
        verdict = f"The coordinator of {what} on node {node_id} did not answer ({error})."
    source = f"coordinator on node {node_id}" if node_id >= 0 else "metadata"
    return Diagnosis(
        "shard-loads" if loads or node_id < 0 else "unknown",
        verdict,
        evidence=(Evidence("answer", error, source),),
        next_commands=(
            Command(
                "oncelog nodes list",
                "shows which coordinators live: start one"
                if node_id < 0
                else "shows whether the node lives",
            ),
        ),
        unknown=tuple(unknown),
    )


def names_of(partitions: Sequence[Partition]) -> str:
    """Return the names of the first few partitions as text, and how many more there are."""
    names = ", ".join(f"{one.topic}-{one.partition}" for one in partitions[:NAMES_MAX])
    more = len(partitions) - NAMES_MAX
    return names if more <= 0 else f"{names} and {counted(more, 'other partition')}"
