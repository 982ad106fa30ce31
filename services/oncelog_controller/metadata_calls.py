"""The calls of the `Controller` service: each becomes an event of the machine, whose answer goes to the caller."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from oncelog.errors import ErrorCode
from oncelog.runtime import DriverStopped
from oncelog_controller.core.events import MetadataRequest
from oncelog_controller.metadata_log import MetadataLog, MetadataUnavailable

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


class MetadataCalls:
    """The base of the servicers: it makes an event of a call, and an answer for a caller that gets no answer of it."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log

    async def _ask(
        self,
        refused: Callable[[ErrorCode, str], AnswerT],
        event: Callable[Concatenate[int, P], MetadataRequest],
        /,
        *fields: P.args,
        **named: P.kwargs,
    ) -> AnswerT:
        """Return the machine's answer to the event with these fields.

        Without an answer, return `refused(code, reason)`.

        An answer's class is its own `refused` if its first fields are code and reason.
        """
        try:
            answer: AnswerT = await self._log.ask(
                lambda request_id: event(request_id, *fields, **named)
            )
            return answer
        except (DriverStopped, MetadataUnavailable) as error:
            return refused(error.error_code, unavailable_reason(error.error_code))


def unavailable_reason(error_code: ErrorCode) -> str:
    if error_code is ErrorCode.NOT_CONTROLLER:
        return "this controller is not the active one; ask DescribeController who is"
    return "the controller is replaying its journal, so the outcome is unknown; ask again"
