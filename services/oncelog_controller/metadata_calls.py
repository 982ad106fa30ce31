"""What the parts of the `Controller` service share: how a call becomes an event of the machine, and is answered."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from oncelog.errors import ErrorCode
from oncelog.runtime import DriverStopped
from oncelog_controller.core.events import MetadataRequest
from oncelog_controller.metadata_log import MetadataLog, MetadataUnavailable

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


class MetadataCalls:
    """How a call becomes an event of the machine, and what a caller is told that gets no answer of it."""

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
        """The machine's answer to the event with these fields, or what `refused` makes of the reason for none.

        An answer's class is its own `refused` where its first fields are code and reason.
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
