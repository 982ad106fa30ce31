"""A fetch session with one node: a Fetch names only what changed, and its answer only what is new (KIP-227).

```
 all partitions, epoch 0 ──▶ the node gives an id ──▶ changes, epochs 1, 2, … ──▶ closed, epoch -1
   ▲                              │ none                │ lost, unknown there, or refused
   └──────────────────────────────┴─────────────────────┘
```

After each `ask` the session holds the partitions of that Fetch and no others. A session speaks of topics by their ids
or by their names, not both.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from oncelog.client.core.partition_state import Fetch, FetchPart
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""The session epoch of a request that names all partitions. With a session id it also closes that session."""
LAST_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
_IS_OVER: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The errors that concern the session alone, and not the partitions that are read."""


class Asked(NamedTuple):
    """The fields of one Fetch request about its session: id, epoch, partitions that are new or changed, and those to
    forget."""

    session_id: int
    epoch: int
    parts: tuple[FetchPart, ...] = ()
    """The partitions that are new in the session or changed."""
    forgotten: tuple[FetchPart, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the answer will contain all partitions, also those with nothing new."""
        return self.epoch == FIRST_EPOCH


class FetchSession:
    def __init__(self) -> None:
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        """The session id and epoch of the next request."""
        self._known: dict[Partition, FetchPart] = {}
        self._has_ids = True

    def ask(self, fetch: Fetch, *, has_ids: bool) -> Asked:
        """Return the session's fields for this Fetch: the partitions that are new, changed or gone. Call it again only
        after `answered` or `lost`."""
        if has_ids != self._has_ids:
            self._begin_anew()
        wanted = {part.partition: part for part in fetch.parts}
        parts, forgotten = fetch.parts, list[FetchPart]()
        if self._epoch != FIRST_EPOCH:
            known = self._known
            parts = tuple(part for part in fetch.parts if _differ(part, known.get(part.partition)))
            for partition, old in known.items():
                new = wanted.get(partition)
                # A topic that was made again has the same name: by its name it must not be forgotten.
                if new is None or (has_ids and new.topic_id != old.topic_id):
                    forgotten.append(old)
        self._known, self._has_ids = wanted, has_ids
        return Asked(self._id, self._epoch, parts, tuple(forgotten))

    def answered(self, error: ErrorCode, session_id: int, told: Collection[Partition]) -> bool:
        """Advance the session after an answer that contains the partitions `told`. False: do not read the answer; the
        next request asks for all partitions again."""
        is_whole = self._epoch == FIRST_EPOCH
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._begin_anew()
            return is_whole or error not in _IS_OVER
        if is_whole:
            self._id = session_id
            is_held = session_id != NO_SESSION and self._known.keys() <= set(told)
            self._epoch = FIRST_EPOCH + 1 if is_held else FIRST_EPOCH
            return True
        if not self._known.keys() >= set(told):
            self._begin_anew()
            return False
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """Start a new session with the next request: no answer came, so nobody knows if the node took this one."""
        self._begin_anew()

    def close(self) -> Asked | None:
        """Return the last request, which closes the session at the node; None: the node holds none."""
        session_id, self._id = self._id, NO_SESSION
        self._begin_anew()
        return None if session_id == NO_SESSION else Asked(session_id, LAST_EPOCH)

    def _begin_anew(self) -> None:
        self._epoch = FIRST_EPOCH


def _differ(part: FetchPart, old: FetchPart | None) -> bool:
    """True if two requests for a partition differ in what the node sees; our own field `version` does not count."""
    return old is None or part._replace(version=old.version) != old
