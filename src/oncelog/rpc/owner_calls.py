"""A call to the current owner of a shard or partition, given up as soon as the metadata names another owner.

A process that is frozen, or cut off by the network, does not answer and does not go away either. The controller's next
decision arrives on the metadata stream, so a caller need not wait for its deadline. The outcome of the call is unknown,
as after any TimeoutError.
"""

import asyncio
from collections.abc import Awaitable, Callable

from oncelog.rpc.deadline import AnswerT, answer_within
from oncelog.rpc.metadata import MetadataFollower, MetadataImage


async def answer_of_owner(
    call: Awaitable[AnswerT],
    timeout_s: float,
    metadata: MetadataFollower,
    is_owner: Callable[[MetadataImage], bool],
) -> AnswerT:
    """Return the result of awaiting `call`, a call to the owner of a shard or partition.

    Raises what the call raises, and TimeoutError: after `timeout_s`, or as soon as a new metadata image makes
    `is_owner` False.
    """
    forget: Callable[[], None] | None = None

    def on_wait(deadline: asyncio.Timeout) -> None:
        nonlocal forget

        def changed(_: MetadataImage, new: MetadataImage) -> None:
            if not is_owner(new) and not deadline.expired():
                deadline.reschedule(0)

        forget = metadata.on_change(changed)

    try:
        return await answer_within(call, timeout_s, on_wait)
    finally:
        if forget is not None:
            forget()
