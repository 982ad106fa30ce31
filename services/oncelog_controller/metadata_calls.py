"""The base of the `Controller` service: each call becomes an event of the metadata machine, whose answer goes to the
caller.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from oncelog.errors import ErrorCode
from oncelog.runtime import DriverStopped
from oncelog_controller.core.events import MetadataRequest
from oncelog_controller.metadata_log import MetadataLog, MetadataUnavailable

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


class MetadataCalls:
    """The base of the controller's servicers. `_ask` sends the metadata machine an event, and returns its answer.

    If the machine cannot answer, because this controller is not active or is replaying, the caller gets an error
    answer.
    """

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
        """Send the metadata machine an event of this class with these fields, and return its answer.

        If the machine cannot answer now, return `refused(code, reason)`. Where an answer's class has these two as its
        first fields, it is passed as `refused`.
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
