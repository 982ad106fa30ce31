"""The rules by which chaos's proxy holds or delays traffic between two parties while faults are under way.

A party is a process of the cluster by its name, or `clients`, `postgres`, `redis`. A connection is two flows, each with
a party that sends and one that receives. All rules of a fault come into force together, and are lifted together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

ANYBODY = "*"
CLIENTS = "clients"


class Effect(StrEnum):
    HOLD = "hold"
    """The effect that nothing passes; bytes that wait go on when the rule is lifted."""
    DELAY = "delay"


class AfterHold(StrEnum):
    """The fate of held bytes, and of their connection, when the rule is lifted."""

    DELIVER = "deliver"
    BREAK = "break"
    """The held bytes are lost, and their connection breaks: the partition was longer than TCP retransmits."""
    GHOST = "ghost"
    """The connection breaks for the sender, and yet the held bytes arrive at the receiver."""


@dataclass(frozen=True, slots=True)
class Rule:
    sender: str
    receiver: str
    effect: Effect
    delay_ms: int = 0
    after: AfterHold = AfterHold.DELIVER

    def concerns(self, sender: str, receiver: str) -> bool:
        return self.sender in (ANYBODY, sender) and self.receiver in (ANYBODY, receiver)


@dataclass(frozen=True, slots=True)
class LinkState:
    is_held: bool
    delay_ms: int


OPEN = LinkState(is_held=False, delay_ms=0)


class Rules:
    """The rules on traffic that are in force, by the name of the fault to which they belong."""

    def __init__(self) -> None:
        self._by_fault: dict[str, tuple[Rule, ...]] = {}

    def put(self, fault: str, rules: tuple[Rule, ...]) -> None:
        self._by_fault[fault] = rules

    def lift(self, fault: str) -> tuple[Rule, ...]:
        """Take the fault's rules out of force and return them."""
        return self._by_fault.pop(fault, ())

    def faults(self) -> tuple[str, ...]:
        return tuple(self._by_fault)

    def state(self, sender: str, receiver: str) -> LinkState:
        found = list(self._concerning(sender, receiver))
        if not found:
            return OPEN
        return LinkState(
            is_held=any(rule.effect is Effect.HOLD for rule in found),
            delay_ms=max(rule.delay_ms for rule in found),
        )

    def _concerning(self, sender: str, receiver: str) -> Iterator[Rule]:
        for rules in self._by_fault.values():
            for rule in rules:
                if rule.concerns(sender, receiver):
                    yield rule


def both_ways(party: str, other: str, effect: Effect, **more: object) -> tuple[Rule, ...]:
    """Return one rule for each direction between `party` and `other`, which may be `ANYBODY`. `more` are further fields
    of both rules."""
    return (
        Rule(party, other, effect, **more),  # type: ignore[arg-type]
        Rule(other, party, effect, **more),  # type: ignore[arg-type]
    )


def rule_from(content: Mapping[str, object]) -> Rule:
    """Return the rule that `asdict` and JSON wrote as `content`."""
    return Rule(
        sender=str(content["sender"]),
        receiver=str(content["receiver"]),
        effect=Effect(str(content["effect"])),
        delay_ms=int(str(content["delay_ms"])),
        after=AfterHold(str(content["after"])),
    )
