"""Roles in one process: the same servicers, called without a socket.

A `DirectStub` looks like a gRPC stub (`await stub.Produce(request, timeout=1.0)`) and calls the servicer's method
with no context. Request and response objects are passed by reference: neither side may change one it did not make.
A servicer's class may name `direct_methods`, which answer with plain objects of the same fields: a protobuf message
copies its bytes when they are put in, and again each time they are looked at. Those methods may also be asked with
such objects (`oncelog.rpc.plain`).
No span shows such a call: it is part of the request's own.
"""

from collections.abc import Awaitable, Callable, Mapping

from oncelog.rpc.contract import Response
from oncelog.rpc.deadline import answer_within


class DirectStub:
    """Calls a servicer of the same process, and looks like a gRPC stub.

    The servicer can be set later with `bind`, where two roles need each other.
    """

    def __init__(self, servicer: object | None = None) -> None:
        self.bind(servicer)

    def bind(self, servicer: object | None) -> None:
        self.__dict__.clear()
        self._servicer = servicer
        self.plain_methods: Mapping[str, str] = getattr(type(servicer), "direct_methods", {})
        """The methods that answer plain objects and take them for a request: name in the stub → name in the
        servicer."""

    def __getattr__(self, name: str) -> Callable[..., Response]:
        """Return the servicer's method of this name as a call. It is kept as an attribute, so this runs once per
        method.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._servicer, self.plain_methods.get(name, name))
        call = self.__dict__[name] = _direct_call(method)
        return call


def _direct_call(method: Callable[..., Response]) -> Callable[..., Response]:
    def call(request: object, timeout: float | None = None) -> Response:
        answer = method(request, None)
        if timeout is None or not isinstance(answer, Awaitable):
            return answer
        return answer_within(answer, timeout)

    return call


def takes_plain(stub: object, name: str) -> bool:
    """Return True if this method of the stub can be called with plain Python objects (`oncelog.rpc.plain`) and answers
    them.

    That is so only in the same process.
    """
    return isinstance(stub, DirectStub) and name in stub.plain_methods
