"""The position of a consumer in each partition, its next fetches, and the records that it returns.

```
 FIND ──committed──▶ FETCH ◀──valid── VALIDATE        FIND: ask the group for its committed offset
   │ none              │ ▲  ────newer leader──▶       RESET: ask a leader where the log begins, or ends
   ▼                   ▼ │                            VALIDATE: was the log cut below the position? (KIP-320)
 RESET ◀──out of range─┘ └── found                    FAILED: the program must decide; poll raises
```

A partition has a position (what is handed out next) and a fetch position, which runs ahead of it by at most two chunks.
So the next fetch leaves before the last answer is decoded. An answer that belongs to a former position (`version`) is
dropped: after a seek it is old news.

A node has one fetch under way. It is asked again when every partition that it may be asked for has room. To ask for
some alone could wait for `fetch.max.wait.ms` at a quiet partition while a busy one runs dry.
"""

from collections import deque
from collections.abc import Callable, Collection

from oncelog.client.core.cluster_view import NO_NODE, OF_ANOTHER_TOPIC, ClusterView
from oncelog.client.core.consumer_record import (
    Chunk,
    ConsumerRecord,
    Deserializers,
    ReaderOf,
    sighted,
)
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.log_places import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from oncelog.client.core.no_offset import (
    made_again,
    nothing_committed,
    out_of_range,
    truncated,
)
from oncelog.client.core.partition_state import (
    FETCH_BYTES_MAX,
    NEVER,
    PREFERRED_MS,
    RESET_BY_DURATION,
    Fetch,
    FetchAnswer,
    FetchPart,
    Lookup,
    PartitionState,
    Stage,
    Step,
    Validation,
)
from oncelog.client.errors import AuthorizationError, ClientError, RefusedError
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition


class FetchCore:
    def __init__(
        self,
        settings: ConsumerSettings,
        reader_of: ReaderOf,
        deserializers: Deserializers | None = None,
    ) -> None:
        self.settings = settings
        self._deserializers = deserializers
        self.taken_count = 0
        """Records that the program has taken."""
        self.fetched_bytes = 0
        self.view = ClusterView()
        self.only: frozenset[Partition] | None = None
        """Partitions that the program waits for alone; only they are fetched and taken. None: all."""
        self._reader_of = reader_of
        self._states: dict[Partition, PartitionState] = {}
        self._first_version = 0
        """The first version of partitions assigned next, so that answers of a former assignment are dropped."""
        self._nodes_asked: set[int] = set()
        self._buffered_bytes = 0
        self._turn: deque[Partition] = deque()
        """Partitions in the order in which their records are taken."""

    # ---------------------------------------------------------------------------------------------- what is read

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._states)

    def state(self, partition: Partition) -> PartitionState | None:
        return self._states.get(partition)

    def assign(self, partitions: Collection[Partition], *, is_held: bool = False) -> None:
        """Read these partitions and no others; known ones keep their positions. `is_held`: new ones wait for
        `release`."""
        for gone in [one for one in self._states if one not in partitions]:
            self._forget(state := self._states.pop(gone))
            self._first_version = max(self._first_version, state.version + 1)
            self._turn.remove(gone)
        for partition in partitions:
            if partition in self._states:
                continue
            bytes_max = self.settings.max_partition_fetch_bytes
            state = PartitionState(partition, self._first_stage, bytes_max)
            state.version = self._first_version
            state.is_held, state.reset_to = is_held, self._reset_time
            self._states[partition] = state
            self._turn.append(partition)

    @property
    def _reset_time(self) -> int:
        ends = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
        return ends.get(self.settings.auto_offset_reset, RESET_BY_DURATION)

    @property
    def _first_stage(self) -> Stage:
        return Stage.FIND if self.settings.group_id is not None else Stage.RESET

    def release(self) -> None:
        """Allow fetches of the newly assigned partitions, because the program has been told of them."""
        for state in self._states.values():
            state.is_held = False

    def seek(self, partition: Partition, offset: int, offset_epoch: int = -1) -> None:
        state = self._states[partition]
        self._forget(state)
        state.move_to(offset, offset_epoch, Stage.FETCH)

    def seek_to(self, partition: Partition, timestamp_ms: int) -> None:
        """Make the next read begin at the start or end of the log, or at the first record since a time."""
        state = self._states[partition]
        self._forget(state)
        state.move_to(-1, -1, Stage.RESET)
        state.reset_to = timestamp_ms

    def _forget(self, state: PartitionState) -> None:
        self._buffered_bytes -= sum(chunk.size_bytes for chunk in state.chunks)
        state.chunks.clear()

    # ---------------------------------------------------------------------------------------------- what to ask

    def step(self, now_ms: float, may_reach: Callable[[int], bool]) -> Step:
        """Return the requests to send now. `may_reach` tells if a node can be sent to; if not, it opens a
        connection."""
        finds: list[tuple[Partition, int]] = []
        lookups: dict[int, list[Lookup]] = {}
        validations: dict[int, list[Validation]] = {}
        fetching: dict[int, list[PartitionState]] = {}
        full: set[int] = set()
        wants_metadata, next_ms, has_failed = False, NEVER, False
        for state in self._states.values():
            if state.is_asked or state.stage is Stage.FAILED:
                continue
            if state.retry_at_ms > now_ms:
                next_ms = min(next_ms, state.retry_at_ms)
                continue
            if state.stage is Stage.FIND:
                finds.append((state.partition, state.version))
                state.is_asked = True
                continue
            leader = self.view.leader(state.partition)
            if leader is None or leader.node_id == NO_NODE:
                wants_metadata = True
                self._wait(state, now_ms, ErrorCode.LEADER_NOT_AVAILABLE)
                next_ms = min(next_ms, state.retry_at_ms)
                continue
            if self._is_of_another_topic(state) and not self._made_again(state):
                has_failed = True
                continue
            if state.stage is Stage.FETCH and leader.epoch != state.validated_epoch:
                self._new_leader(state, leader.epoch)
            if state.stage is Stage.RESET:
                look = Lookup(state.partition, state.reset_to, state.version, leader.epoch)
                lookups.setdefault(leader.node_id, []).append(look)
                state.is_asked = True
            elif state.stage is Stage.VALIDATE:
                check = Validation(state.partition, state.offset_epoch, leader.epoch, state.version)
                validations.setdefault(leader.node_id, []).append(check)
                state.is_asked = True
            elif not state.is_paused and not state.is_held and self._is_wanted(state.partition):
                node_id = self._read_from(state, leader.node_id, now_ms, may_reach)
                fetching.setdefault(node_id, []).append(state)
                if not state.has_room:
                    full.add(node_id)
        fetches = tuple(
            fetch
            for node_id, states in fetching.items()
            if node_id not in full
            and node_id not in self._nodes_asked
            and may_reach(node_id)
            and (fetch := self._fetch(node_id, states)) is not None
        )
        return Step(
            fetches, tuple(finds), lookups, validations, wants_metadata, next_ms, has_failed
        )

    def _is_wanted(self, partition: Partition) -> bool:
        return self.only is None or partition in self.only

    def _is_of_another_topic(self, state: PartitionState) -> bool:
        """True if the topic was made again: the leader refused our topic id. Fetched records are returned first."""
        known = self._topic_id(state.partition)
        is_other = bool(state.topic_id and known) and known != state.topic_id
        return state.is_id_refused and is_other and not state.chunks

    def _topic_id(self, partition: Partition) -> bytes:
        topic = self.view.topics.get(partition.topic)
        return b"" if topic is None else topic.topic_id

    def _made_again(self, state: PartitionState) -> bool:
        """Reset the position, as the topic was made again. False: without `auto.offset.reset` the program must seek."""
        if self.settings.auto_offset_reset != "none":
            self._reset(state)
            return True
        self._forget(state)
        state.move_to(state.position, -1, Stage.FETCH)
        self._fail(state, made_again(state.partition, state.position))
        return False

    def _new_leader(self, state: PartitionState, leader_epoch: int) -> None:
        """Have the position validated at a new leader (KIP-320), if its epoch is known."""
        if 0 <= state.offset_epoch < leader_epoch:
            state.stage = Stage.VALIDATE
        else:
            state.validated_epoch = leader_epoch

    def _read_from(
        self,
        state: PartitionState,
        leader: int,
        now_ms: float,
        may_reach: Callable[[int], bool],
    ) -> int:
        preferred = state.preferred_replica
        if preferred != NO_NODE and (
            now_ms >= state.preferred_until_ms or not may_reach(preferred)
        ):
            state.preferred_replica = NO_NODE
        return leader if state.preferred_replica == NO_NODE else state.preferred_replica

    def _fetch(self, node_id: int, states: list[PartitionState]) -> Fetch | None:
        room = self.settings.fetch_max_bytes - self._buffered_bytes
        if room <= 0:
            return None
        self._nodes_asked.add(node_id)
        for state in states:
            state.is_asked = True
        parts = tuple(
            FetchPart(
                state.partition,
                state.fetch_position,
                state.validated_epoch,
                state.max_bytes,
                state.version,
                state.topic_id or self._topic_id(state.partition),
            )
            for state in states
        )
        return Fetch(node_id, room, parts)

    def _wait(self, state: PartitionState, now_ms: float, failing: ErrorCode) -> None:
        """Pause before the partition is asked for again. The pause doubles with each try."""
        state.failing = failing
        settings = self.settings
        pause = settings.retry_backoff_ms * 2.0 ** min(state.attempts, 10)
        state.retry_at_ms = now_ms + min(pause, settings.retry_backoff_max_ms)
        state.attempts += 1

    # ---------------------------------------------------------------------------------------------- what was answered

    def fetch_ended(self, fetch: Fetch) -> None:
        """Allow the next fetch from this node, as the last one was answered or lost."""
        self._nodes_asked.discard(fetch.node_id)
        for part in fetch.parts:
            state = self._current(part.partition, part.version)
            if state is not None:
                state.is_asked = False

    def fetch_lost(self, fetch: Fetch, now_ms: float) -> None:
        """End a fetch that got no answer. Its partitions are fetched again after a pause."""
        self.fetch_ended(fetch)
        for part in fetch.parts:
            state = self._current(part.partition, part.version)
            if state is not None:
                state.preferred_replica = NO_NODE
                self._wait(state, now_ms, ErrorCode.NETWORK_EXCEPTION)

    def fetched(self, part: FetchPart, answer: FetchAnswer | None, now_ms: float) -> bool:
        """Store a partition's part of an answer; None: nothing is new (KIP-227). Return True if the metadata is old."""
        state = self._current(part.partition, part.version)
        if state is None:
            return False
        if answer is not None and answer.error is not ErrorCode.NONE:
            return self._fetch_failed(state, answer.error, now_ms)
        state.attempts, state.topic_id, state.is_id_refused = 0, part.topic_id, False
        state.failing = ErrorCode.NONE
        if answer is None:
            return False
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        if answer.preferred_replica != NO_NODE:
            state.preferred_replica = answer.preferred_replica
            state.preferred_until_ms = now_ms + PREFERRED_MS
        if answer.records:
            self._take_in(state, answer)
        return False

    def took_all(self, fetch: Fetch) -> bool:
        """Return False if the session must ask for everything again, as a partition dropped its answer (a node tells
        news only once in a session)."""
        for part in fetch.parts:
            state = self._states.get(part.partition)
            if state is None or state.failing is not ErrorCode.NONE:
                continue
            if state.version != part.version or state.high_watermark < 0:
                return False
        return True

    def _take_in(self, state: PartitionState, answer: FetchAnswer) -> None:
        aborted = answer.aborted if self.settings.reads_committed else None
        try:
            seen = sighted(answer.records, state.fetch_position, aborted)
        except KafkaError as error:
            self._fail(state, RefusedError(f"{state.partition}: {error}", error.error_code))
            return
        if seen.next_offset == state.fetch_position:
            # No whole batch: it is larger than what was asked for. (Kafka sends the first one whole; others cut it.)
            state.max_bytes = min(state.max_bytes * 2, FETCH_BYTES_MAX)
            return
        chunk = Chunk(
            state.partition, answer.records, state.fetch_position, seen, self.settings.check_crcs
        )
        state.fetch_position = seen.next_offset
        state.offset_epoch = seen.leader_epoch
        state.chunks.append(chunk)
        self._buffered_bytes += chunk.size_bytes
        self.fetched_bytes += chunk.size_bytes

    def _fetch_failed(self, state: PartitionState, error: ErrorCode, now_ms: float) -> bool:
        state.is_id_refused |= error in OF_ANOTHER_TOPIC
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica != NO_NODE:
                state.preferred_replica = NO_NODE  # A follower may be behind: ask the leader.
            elif state.chunks:
                self._wait(state, now_ms, error)  # Fetched records are returned before.
            else:
                self._out_of_range(state)
            return False
        if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            text = f"{state.partition} may not be read: the user needs READ on the topic"
            self._fail(state, AuthorizationError(text, error))
            return False
        if not error.is_retriable and error is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self._fail(state, RefusedError(f"{state.partition}: {error.name}", error))
            return False
        state.preferred_replica = NO_NODE
        self._wait(state, now_ms, error)
        return error is not ErrorCode.OFFSET_NOT_AVAILABLE

    def _out_of_range(self, state: PartitionState) -> None:
        if self.settings.auto_offset_reset != "none":
            self._reset(state)
        else:
            self._fail(state, out_of_range(state.partition, state.position))

    def _reset(self, state: PartitionState) -> None:
        """Find a new position by `auto.offset.reset`; with "none", reading fails until the program seeks."""
        self._forget(state)
        if self.settings.auto_offset_reset == "none":
            self._fail(state, nothing_committed(state.partition))
            return
        state.move_to(-1, -1, Stage.RESET)
        state.reset_to = self._reset_time

    def found(
        self, partition: Partition, version: int, offset: int | None, offset_epoch: int = -1
    ) -> None:
        """Continue from the group's committed offset. None: the group has none here, so `auto.offset.reset` decides."""
        state = self._current(partition, version)
        if state is None:
            return
        if offset is None:
            self._reset(state)
        else:
            state.move_to(offset, offset_epoch, Stage.FETCH)

    def looked_up(self, look: Lookup, offset: int, offset_epoch: int) -> None:
        """Continue from the offset that a leader returned for a time; -1: no record is that new, so at the end."""
        state = self._current(look.partition, look.version)
        if state is None:
            return
        if offset < 0:
            state.is_asked, state.reset_to = False, LATEST_TIMESTAMP
        else:
            state.move_to(offset, offset_epoch if look.timestamp_ms >= 0 else -1, Stage.FETCH)

    def validated(self, check: Validation, end_epoch: int, end_offset: int) -> None:
        """Keep the position, unless it is above the end of its epoch at the leader: that part was truncated."""
        state = self._current(check.partition, check.version)
        if state is None:
            return
        state.is_asked = False
        if end_epoch >= 0 and end_offset >= state.fetch_position:
            state.stage, state.validated_epoch, state.attempts = Stage.FETCH, check.leader_epoch, 0
            return
        position = state.fetch_position
        if self.settings.auto_offset_reset == "none":
            self._forget(state)
            self._fail(state, truncated(state.partition, position, end_offset))
        elif end_epoch < 0 or end_offset < 0:
            self._reset(state)
        else:
            kept = min(end_offset, state.position)
            self._forget(state)
            state.move_to(kept, end_epoch, Stage.FETCH)
            state.validated_epoch = check.leader_epoch

    def ask_again(
        self, partition: Partition, version: int, now_ms: float, failing: ErrorCode
    ) -> None:
        """Repeat the partition's request after a pause: it failed with an error that may pass."""
        state = self._current(partition, version)
        if state is not None:
            state.is_asked = False
            self._wait(state, now_ms, failing)

    def fail(self, partition: Partition, version: int, error: ClientError) -> None:
        state = self._current(partition, version)
        if state is not None:
            self._fail(state, error)

    def _fail(self, state: PartitionState, error: ClientError) -> None:
        state.stage, state.error, state.is_asked = Stage.FAILED, error, False

    def _current(self, partition: Partition, version: int) -> PartitionState | None:
        state = self._states.get(partition)
        return state if state is not None and state.version == version else None

    # ---------------------------------------------------------------------------------------------- what is handed out

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return fetched records of one partition, in order; empty: there are none now. Partitions take turns.

        Raises the error of a partition that only the program can solve, once its fetched records are taken. Raises
        SerializationError, each time, while the next record cannot be deserialized.
        """
        found = self._take(count)
        if found and self._deserializers is not None:
            read = found
            found, error = self._deserializers.applied(read)
            if error is not None:
                # The failed record is fetched again, and stands first then.
                failed = read[len(found)]
                self.seek(failed.topic_partition, failed.offset, failed.leader_epoch)
                if not found:
                    raise error
        self.taken_count += len(found)
        return found

    def _take(self, count: int) -> list[ConsumerRecord]:
        for _ in range(len(self._turn)):
            partition = self._turn[0]
            state = self._states[partition]
            if not state.is_paused and not state.is_held and self._is_wanted(partition):
                found = self._take_of(state, count)
                if found:
                    if len(found) < count:
                        self._turn.rotate(-1)
                    return found
                if state.error is not None:
                    raise self._told(state)
            self._turn.rotate(-1)
        return []

    def _take_of(self, state: PartitionState, count: int) -> list[ConsumerRecord]:
        while state.chunks:
            chunk = state.chunks[0]
            try:
                found = chunk.take(self._reader_of, count)
            except KafkaError as error:
                text = f"{error}; seek behind it to go on without it"
                raise RefusedError(text, error.error_code) from error
            if chunk.is_used_up:
                state.chunks.popleft()
                self._buffered_bytes -= chunk.size_bytes
                state.position = chunk.next_offset
            elif found:
                state.position = found[-1].offset + 1
            if found:
                state.position_epoch = found[-1].leader_epoch
                return found
        return []

    def _told(self, state: PartitionState) -> ClientError:
        """Return the partition's error, to be raised until the program seeks. A missing permission is asked for
        again."""
        assert state.error is not None
        error = state.error
        if isinstance(error, AuthorizationError):
            state.stage = Stage.FETCH if state.position >= 0 else self._first_stage
            state.error = None
        return error
