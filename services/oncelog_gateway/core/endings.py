"""Says how an open transaction that holds a last stable offset will end, and which command ends it now.

The row of a partition in REST, `explain` and the console take their words from here.
"""

import shlex
from enum import StrEnum
from typing import NamedTuple

from oncelog.ids import Partition
from oncelog_gateway.core.hanging import CoordinatedTransaction, OpenTransaction


class Ending(StrEnum):
    """The ways in which an open transaction can end. The value is a sentence without its full stop, for an operator."""

    UNKNOWN = "a coordinator did not answer, and whether it hangs is not known; ask again before you end anything"
    NEVER = "nobody will end it"
    PASSED = "it was ending while you looked; look again"
    PRODUCER = "its producer will end it, or its coordinator after the timeout"
    OUTSIDE = "it is two-phase: its application decides it, and no time-out ends it"
    MARKER = "its coordinator has decided; the marker is on its way"


def ending_of(state: str | None, *, is_hanging: bool | None, is_two_phase: bool = False) -> Ending:
    """Return how an open transaction will end. `state` is its state at the coordinator that has it open; None: none
    has. `is_hanging` is None if that is not known.
    """
    if is_hanging is None:
        return Ending.UNKNOWN
    if is_hanging:
        return Ending.NEVER
    if state is None:
        return Ending.PASSED
    if state != "Ongoing":
        return Ending.MARKER
    return Ending.OUTSIDE if is_two_phase else Ending.PRODUCER


class Advice(NamedTuple):
    """The advice for an operator about an open transaction: a sentence and, if there is one, a command."""

    words: str
    """A sentence without its full stop."""
    command: str | None
    """A command that ends the transaction, or that shows what to look at first; None: there is none."""

    @property
    def text(self) -> str:
        return self.words if self.command is None else f"{self.words}: {self.command}"


def advice(
    opened: OpenTransaction, owner: CoordinatedTransaction | None, *, is_hanging: bool | None
) -> Advice:
    ending = ending_of(
        owner.state if owner else None,
        is_hanging=is_hanging,
        is_two_phase=owner is not None and owner.is_two_phase,
    )
    if ending is Ending.NEVER:
        return Advice(
            ending.value,
            abort_command(opened.partition, opened.start_offset, opened.producer_epoch),
        )
    if ending is Ending.PRODUCER and owner is not None:
        return Advice(f"{ending.value}; to end it now", terminate_command(owner.transactional_id))
    if ending is Ending.OUTSIDE and owner is not None:
        return Advice(f"{ending.value}; what to compare", explain_command(owner.transactional_id))
    return Advice(ending.value, None)


def abort_command(partition: Partition, start_offset: int, producer_epoch: int) -> str:
    """Return the command that aborts a hanging transaction. Without --execute it only shows what would happen."""
    return (
        f"oncelog transactions abort --topic {shlex.quote(partition.topic)} --partition {partition.partition}"
        f" --start-offset {start_offset} --producer-epoch {producer_epoch}"
    )


def terminate_command(transactional_id: str) -> str:
    """Return the command that fences the producer and aborts its transaction."""
    return f"oncelog transactions terminate {shell_word(transactional_id)}"


def explain_command(transactional_id: str) -> str:
    return f"oncelog transactions explain {shell_word(transactional_id)}"


def complete_command(transactional_id: str, prepared: str, outcome: str) -> str:
    """Return the command that ends a two-phase transaction. `prepared` is its identity, such as `42:7`, and `outcome`
    is `commit` or `abort`. Without --execute the command only shows what would happen.
    """
    return (
        f"oncelog transactions complete --prepared {prepared} --{outcome}"
        f" {shell_word(transactional_id)}"
    )


def shell_word(name: str) -> str:
    """Return the name as an argument that no shell changes, and that is not read as an option."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)
