"""The methods that a process serves: from a method's path to its servicer, and from the servicer's exceptions to a
status.

Calls over sessions (streams between processes) and plain gRPC calls both go through here. So both get the same answers
and the same errors.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message
from grpc import StatusCode

from oncelog.errors import OncelogError
from oncelog.rpc.callers import may_call, refusal
from oncelog.rpc.contract import SERVICES, Method
from oncelog.rpc.deadline import AnswerT
from oncelog.rpc.sessions import PeerUnavailable
from oncelog.runtime.cancellation import was_cancelled

logger = logging.getLogger(__name__)

_METHODS = {
    method.path: (name, method)
    for name, service in SERVICES.items()
    for method in service.methods.values()
}


NOT_BEGUN = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.UNIMPLEMENTED,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.PERMISSION_DENIED,
    }
)
"""Statuses that are only given before a servicer is called: the call surely had no effect."""


_PATH_SHOWN = 200


class CallRefused(Exception):
    """Raised to end a call with this gRPC status instead of an answer."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_caller(role: str, path: str) -> None:
    """Raise CallRefused if a process of this role may not call this method. The call then has no effect."""
    if not may_call(role, path):
        refused = refusal(role, path[:_PATH_SHOWN])
        _log_once(refused)
        raise CallRefused(StatusCode.PERMISSION_DENIED, refused)


@functools.lru_cache(maxsize=256)
def _log_once(refused: str) -> None:
    """Log a refusal, but each text only once: a peer that repeats its call must not fill the log."""
    logger.warning("refused: %s (told once)", refused)


@dataclass(frozen=True, slots=True)
class Served:
    """One method that this process serves, with the servicer's function that answers it: `answer(request, context)`."""

    method: Method
    answer: Callable[..., Any]
    """It returns an awaitable of the response. A method that answers a stream returns an iterator of responses."""

    def read(self, request: bytes) -> Message:
        """Return the request of a unary method, parsed from its bytes. Raises CallRefused."""
        if not self.method.is_unary:
            raise CallRefused(
                StatusCode.UNIMPLEMENTED, f"{self.method.path} is a stream: call it with plain gRPC"
            )
        try:
            return self.method.request_from_string(request)
        except DecodeError:
            raise CallRefused(
                StatusCode.INVALID_ARGUMENT, f"{self.method.path}: the request cannot be read"
            ) from None

    async def call(self, message: Message) -> bytes:
        """Call the servicer, and return the serialized response. Raises CallRefused for every error."""
        response: Message = await self.called(self.answer(message, None))
        return response.SerializeToString()

    async def called(self, answer: Awaitable[AnswerT]) -> AnswerT:
        """Return the result of awaiting `answer`. Its exceptions are raised as CallRefused, with a status and the
        method's name.
        """
        try:
            return await answer
        except StopAsyncIteration:
            raise
        except PeerUnavailable as error:
            raise CallRefused(StatusCode.UNKNOWN, f"{self.method.path}: {error}") from error
        except OncelogError as error:
            # The caller sees the same words as on a direct call.
            raise CallRefused(StatusCode.FAILED_PRECONDITION, str(error)) from error
        except TimeoutError as error:
            raise CallRefused(
                StatusCode.DEADLINE_EXCEEDED, f"{self.method.path}: {error or 'a deadline passed'}"
            ) from error
        except Exception as error:  # A handler's bug must reach its caller as an answer.
            logger.exception("%s failed", self.method.path)
            raise CallRefused(
                StatusCode.INTERNAL, f"{self.method.path}: {type(error).__name__}: {error}"
            ) from error
        except asyncio.CancelledError:
            if was_cancelled():
                raise
            # Nobody cancelled this call: what it waited for was dropped, as when a role stops.
            raise CallRefused(
                StatusCode.UNKNOWN, f"{self.method.path}: dropped by the process that served it"
            ) from None


class ServedMethods:
    """The methods that this process serves now. `add` adds those of a role when it starts.

    Before that, its calls are answered UNAVAILABLE.
    """

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}

    def add(self, service_name: str, servicer: object) -> None:
        """Serve the methods of a service (a name such as `STORAGE` of `oncelog.rpc.contract`) that `servicer` has."""
        for method in SERVICES[service_name].methods.values():
            answer = getattr(servicer, method.name, None)
            if answer is not None:
                self._served[method.path] = Served(method, answer)

    def remove(self, service_name: str) -> None:
        """Answer UNAVAILABLE for this service from now on; calls in flight go on."""
        for method in SERVICES[service_name].methods.values():
            self._served.pop(method.path, None)

    def find(self, path: str) -> Served:
        """Return the served method of a path. Raises CallRefused if it is not served: the call had no effect."""
        served = self._served.get(path)
        if served is not None:
            return served
        known = _METHODS.get(path)
        if known is None:
            raise CallRefused(
                StatusCode.UNIMPLEMENTED, f"{path}: there is no such method in this version"
            )
        raise CallRefused(
            StatusCode.UNAVAILABLE, f"{path}: this node does not serve {known[0]} at the moment"
        )
