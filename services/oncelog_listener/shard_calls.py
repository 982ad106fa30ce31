"""The calls to the coordinator that owns a shard (a partition of `__transaction_state` or `__consumer_offsets`). They
are repeated when it dies or moves, so clients see a pause and no error.

`Cluster.ask_leaders` asks partition leaders in the same way. `core.repeating` says which requests may be repeated.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, TypeVar

from oncelog.errors import ErrorCode
from oncelog.rpc.deadline import AnswerT
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.rpc.sessions import PeerUnavailable
from oncelog.rpc.stubs import GroupCoordinatorStub, TransactionCoordinatorStub
from oncelog_listener.brokers import is_leaving
from oncelog_listener.cluster import PEER_FAILURES, Cluster
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.retry_policy import RetryPolicy, was_sent

StubT = TypeVar("StubT")


@dataclass(frozen=True, slots=True)
class Coordinators(Generic[StubT]):
    """The coordinators of one kind of shard, and how to call them."""

    kind: int
    """The kind of shard in the metadata: TRANSACTION or GROUP."""
    stub: Callable[[Directory, int], StubT]
    """The function that returns the stub of the coordinator on a node."""


TRANSACTION_COORDINATORS: Final[Coordinators[TransactionCoordinatorStub]] = Coordinators(
    TRANSACTION, lambda directory, node_id: directory.coordinator(node_id)
)
GROUP_COORDINATORS: Final[Coordinators[GroupCoordinatorStub]] = Coordinators(
    GROUP, lambda directory, node_id: directory.group_coordinator(node_id)
)


async def call_shard(
    cluster: Cluster,
    coordinators: Coordinators[StubT],
    name: str,
    ask: Callable[[StubT], Awaitable[AnswerT]],
    *,
    error_code_of: Callable[[AnswerT], int] = attrgetter("error_code"),
    repeatable: Repeatable = Repeatable.ALWAYS,
    timeout_ms: int | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> AnswerT:
    """Call the coordinator that owns this transactional.id or group id (`name`), and return what `ask(stub)` returns.

    The call is repeated while the coordinator dies or moves, if `repeatable` allows that. Raises one of PEER_FAILURES
    when nobody answered in time; `timeout_ms` bounds each try, None: as the settings say.

    Nothing is sent once `is_wanted` says that the client may be gone: another listener may have answered the client by
    then. A late copy would end its next transaction, or fence it.
    """
    timeout_s = (timeout_ms or cluster.settings.request_timeout_ms) / 1000
    retries = RetryPolicy(cluster)
    if not is_wanted():
        raise PeerUnavailable("the client may have gone elsewhere", was_sent=False)
    if is_leaving(cluster):
        raise PeerUnavailable("this listener stops: the client goes to another", was_sent=False)
    while True:
        image = cluster.image
        try:
            owner, stub = _owner(cluster, image, coordinators, name)
            answer = await _await_owner(
                cluster, coordinators, name, owner, ask(stub), timeout_s, repeatable
            )
        except PEER_FAILURES as error:
            if not is_repeated(repeatable, ErrorCode.NETWORK_EXCEPTION, was_sent(error)):
                raise
            if not is_wanted() or not await retries.pause(image) or not is_wanted():
                raise
            continue
        error_code = error_code_of(answer)
        if (
            error_code
            and is_repeated(repeatable, error_code)
            and is_wanted()
            and await retries.pause(image)
            and is_wanted()
        ):
            continue
        return answer


async def _await_owner(
    cluster: Cluster,
    coordinators: Coordinators[StubT],
    name: str,
    owner: int,
    answer: Awaitable[AnswerT],
    timeout_s: float,
    repeatable: Repeatable,
) -> AnswerT:
    def owns(image: MetadataImage) -> bool:
        shard = image.shard_for(coordinators.kind, name)
        return repeatable is not Repeatable.ALWAYS or (
            shard is not None and shard.coordinator == owner
        )

    return await answer_of_owner(answer, timeout_s, cluster.metadata, owns)


def _owner(
    cluster: Cluster, image: MetadataImage, coordinators: Coordinators[StubT], name: str
) -> tuple[int, StubT]:
    shard = image.shard_for(coordinators.kind, name)
    if shard is None or shard.coordinator < 0:
        raise PeerUnavailable(f"the shard of {name!r} has no coordinator now", was_sent=False)
    try:
        return shard.coordinator, coordinators.stub(cluster.directory, shard.coordinator)
    except KeyError:
        raise PeerUnavailable(
            f"coordinator {shard.coordinator} is not known yet", was_sent=False
        ) from None
