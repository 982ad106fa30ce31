"""Faults of the simulated network: which traffic from one host to another each holds or delays. No fault acts
between a host and itself."""

from collections.abc import Collection
from typing import Final

EVERYBODY: Final = None


class Fault:
    """A fault of the simulated network between the hosts of two groups: it holds or delays their traffic.
    `EVERYBODY` as a group is every host."""

    def __init__(
        self,
        name: str,
        sources: frozenset[str] | None,
        targets: frozenset[str] | None,
        *,
        both_ways: bool,
        is_blocking: bool,
        delay: tuple[float, float] | None = None,
        sends_again: bool = False,
        only_forward: bool = False,
    ) -> None:
        self.name = name
        self._sources = sources
        self._targets = targets
        self._both_ways = both_ways
        self._is_blocking = is_blocking
        self._delay = delay
        self.sends_again = sends_again
        """True if segments are lost during the fault, and their senders try again now and then."""
        self._only_forward = only_forward
        """True if only traffic to the side that accepted the connection is held; new
        connections are made all the same."""
        self.text = " ".join(
            (_text(sources), "<->" if both_ways else "->", _text(targets), _text_of_delay(delay))
        ).strip()

    @classmethod
    def between(
        cls, name: str, sources: Collection[str], targets: Collection[str], *, one_way: bool
    ) -> "Fault":
        return cls(
            name,
            frozenset(sources),
            frozenset(targets),
            both_ways=not one_way,
            is_blocking=True,
            sends_again=True,
        )

    @classmethod
    def of_host(
        cls,
        name: str,
        host: str,
        *,
        blocks: bool = False,
        delay: tuple[float, float] | None = None,
        sends_again: bool = False,
        only_forward: bool = False,
    ) -> "Fault":
        return cls(
            name,
            frozenset((host,)),
            EVERYBODY,
            both_ways=True,
            is_blocking=blocks,
            delay=delay,
            sends_again=sends_again,
            only_forward=only_forward,
        )

    def blocks(self, source: str, target: str, is_forward: bool) -> bool:
        """True if the fault holds traffic from `source` to `target`; `is_forward` is the direction from
        the dialer to the acceptor."""
        if not self._is_blocking or (self._only_forward and not is_forward):
            return False
        return self._is_between(source, target)

    def blocks_connecting(self, source: str, target: str) -> bool:
        return self._is_blocking and not self._only_forward and self._is_between(source, target)

    def delay_of(self, source: str, target: str) -> tuple[float, float] | None:
        if self._delay is None or not self._is_between(source, target):
            return None
        return self._delay

    def _is_between(self, source: str, target: str) -> bool:
        if source == target:
            return False
        return self._leads(source, target) or (self._both_ways and self._leads(target, source))

    def _leads(self, source: str, target: str) -> bool:
        return (self._sources is EVERYBODY or source in self._sources) and (
            self._targets is EVERYBODY or target in self._targets
        )


def _text(hosts: frozenset[str] | None) -> str:
    return "everybody" if hosts is None else ",".join(sorted(hosts))


def _text_of_delay(delay: tuple[float, float] | None) -> str:
    return "" if delay is None else f"+{delay[0]:.6f}s~{delay[1]:.6f}s"
