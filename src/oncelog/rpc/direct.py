"""Roles in one process: the same servicers, called without a socket.

A `DirectStub` looks like a gRPC stub (`await stub.Produce(request, timeout=1.0)`) and calls the servicer's method
with no context. Request and response objects are passed by reference: neither side may change one it did not make.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from oncelog.rpc.deadline import answer_within
from oncelog.telemetry import spans


class DirectStub:
    """Stands in for a generated gRPC stub of `servicer`.

    The servicer is set after construction where two roles need each other.
    """

    def __init__(self, servicer: object | None = None) -> None:
        self._servicer = servicer

    def bind(self, servicer: object) -> None:
        self.__dict__.clear()
        self._servicer = servicer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method that was not called before; from then on it is an attribute."""
        if name.startswith("_"):
            raise AttributeError(name)
        call = self.__dict__[name] = _direct_call(getattr(self._servicer, name))
        return call


def _direct_call(method: Callable[..., Any]) -> Callable[..., Any]:
    name = _span_name(method)

    def call(request: Any, timeout: float | None = None) -> Any:
        if spans.recorder is not None and spans.current() is not None:
            answer = _traced(name, method, request)
        else:
            answer = method(request, None)
        if timeout is None or not isinstance(answer, Awaitable):
            return answer
        return answer_within(answer, timeout)

    return call


async def _traced(name: str, method: Callable[..., Any], request: Any) -> Any:
    with spans.span(name, spans.Kind.SERVER):
        return await method(request, None)


def _span_name(method: Callable[..., Any]) -> str:
    """As a call over the wire is called: Storage/Produce."""
    owner = type(getattr(method, "__self__", method)).__name__
    return f"{owner.removesuffix('Servicer')}/{getattr(method, '__name__', '')}"
