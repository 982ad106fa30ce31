"""The gRPC calls of a simulated process that plays an older version. Its serializers and handlers are
wrapped, so that messages keep only what the older version's schemas (its `Contracts`) know."""

from collections.abc import Callable
from typing import Any

from oncelog_robustness.simulator.contracts import PACKAGE, Contracts, Spoken
from oncelog_robustness.simulator.process import owner


def contracts_here() -> Contracts | None:
    """Return the schemas of the older version that the running process plays. None: the process is of today's
    version, or the running code belongs to no process."""
    process = owner()
    return None if process is None else process.contracts


def as_caller(path: str, write: Any, read: Any) -> tuple[str, Any, Any]:
    """Return the path, serializer and deserializer with which the running process makes a call, from those of today's
    version (`path`, `write`, `read`). In a process of an older version they remove unknown fields, and an unknown
    method gets a path that nobody serves."""
    contracts = contracts_here()
    if contracts is None or not _is_ours(path):
        return path, write, read
    spoken = Spoken(contracts, path)
    return spoken.path, _then(write, spoken.request), _then(spoken.answer, read)


def as_server(contracts: Contracts | None, path: str, handler: Any) -> Any:
    """Return the handler of a called method, wrapped so that its messages lose the fields that `contracts` do
    not know. None: there is no handler, or `contracts` lack the method. `contracts` None changes nothing."""
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
    """True for a method of oncelog's own services; health and reflection are gRPC's own."""
    return path.startswith(f"/{PACKAGE}.")


def _then(first: Any, second: Any) -> Callable[[Any], Any]:
    """Return a function that applies `first` and hands its result to `second`. If one of them is None, which
    for gRPC leaves bytes as they are, return the other."""
    if first is None or second is None:
        found: Callable[[Any], Any] = first or second
        return found
    return lambda value: second(first(value))
