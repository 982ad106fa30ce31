"""The calls of the process whose code is running, by the contracts that it has: an older version's, or today's."""

from collections.abc import Callable
from typing import Any

from oncelog_robustness.simulator.contracts import PACKAGE, Contracts, Spoken
from oncelog_robustness.simulator.process import owner


def contracts_here() -> Contracts | None:
    """Return the contracts of the process whose code is running; None for today's."""
    process = owner()
    return None if process is None else process.contracts


def as_caller(path: str, write: Any, read: Any) -> tuple[str, Any, Any]:
    """Return the path, serializer and deserializer of a call that this process makes."""
    contracts = contracts_here()
    if contracts is None or not _is_ours(path):
        return path, write, read
    spoken = Spoken(contracts, path)
    return spoken.path, _then(write, spoken.request), _then(spoken.answer, read)


def as_server(contracts: Contracts | None, path: str, handler: Any) -> Any:
    """Return the handler of one call, or None if a process with these contracts has no such method."""
    if contracts is None or handler is None or not _is_ours(path):
        return handler
    if contracts.method(path) is None:
        return None
    spoken = Spoken(contracts, path)
    return handler._replace(
        request_deserializer=_then(spoken.request, handler.request_deserializer),
        response_serializer=_then(handler.response_serializer, spoken.answer),
    )


def _is_ours(path: str) -> bool:
    """True for a method of oncelog; health and reflection are gRPC's own."""
    return path.startswith(f"/{PACKAGE}.")


def _then(first: Any, second: Any) -> Callable[[Any], Any]:
    """Return the composition of both functions; None, which for gRPC leaves bytes as they are, is skipped."""
    if first is None or second is None:
        found: Callable[[Any], Any] = first or second
        return found
    return lambda value: second(first(value))
