"""Verification: a leader lets a transaction into a partition only when the coordinator knows of it (facts 9).

Without it a batch that arrives after its transaction ended would open a transaction nobody will ever end. It would pin
the last stable offset for good (KIP-890). For the first batch of a transaction the leader creates an entry with a guard
and asks the coordinator. It appends only if the very same guard still stands: a marker that came in between has removed
it. The entry also remembers the lowest sequence seen while it stands. So a later batch of the same producer cannot slip
in before the first one.

Under TV1 the transactions of a producer share an epoch. A marker that was held up until the next transaction runs looks
like the marker of that next one. A marker sender that froze and was replaced may hold a marker up so long. So the
coordinator tells when the transaction that it verified began, and each marker tells when its own began. The leader
compares the two. A new leader asks the coordinator when the running transaction began (`learn_start`).
"""

from collections.abc import Iterator

KnownStart = tuple[int, int]
"""Of a producer id: the start of its transaction, and when that was noted."""


class VerificationGuard:
    """Stands for one verification; equality is identity."""

    __slots__ = ()

    def verifies(self, other: "VerificationGuard | None") -> bool:
        """The sentinel never verifies, not even against itself."""
        return self is other and self is not SENTINEL_GUARD


SENTINEL_GUARD = VerificationGuard()
"""Given where no verification was needed; it opens nothing."""


class VerificationEntry:
    """A verification under way, or done and not yet used, for one producer id."""

    __slots__ = (
        "guard",
        "is_answered",
        "lowest_sequence",
        "producer_epoch",
        "supports_epoch_bump",
        "timestamp",
    )

    def __init__(
        self, producer_epoch: int, sequence: int, supports_epoch_bump: bool, timestamp: int
    ) -> None:
        self.guard = VerificationGuard()
        self.is_answered = False
        """The coordinator told when the transaction began that is verified here."""
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.timestamp = timestamp

    def saw(self, producer_epoch: int, sequence: int) -> None:
        """Another batch asks under the same guard. A newer epoch starts the sequences afresh."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class Verifications:
    """The verification entries of one partition."""

    def __init__(self) -> None:
        self._entries: dict[int, VerificationEntry] = {}
        self._starts: dict[int, KnownStart] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def get(self, producer_id: int) -> VerificationEntry | None:
        return self._entries.get(producer_id)

    def begin(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        supports_epoch_bump: bool,
        now: int,
    ) -> VerificationGuard:
        """The guard to verify with: the entry's, made if there is none (rule 3 of facts 9)."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = VerificationEntry(producer_epoch, sequence, supports_epoch_bump, now)
            self._entries[producer_id] = entry
        else:
            entry.saw(producer_epoch, sequence)
        return entry.guard

    def note_start(
        self, producer_id: int, guard: VerificationGuard, transaction_start_ms: int, now: int
    ) -> None:
        """The coordinator verified a transaction that began then. 0: it did not say; what is known is of another."""
        entry = self._entries.get(producer_id)
        if entry is None or not entry.guard.verifies(guard):
            return
        if transaction_start_ms > 0:
            entry.is_answered = True
            self._starts[producer_id] = (transaction_start_ms, now)
        else:
            self._starts.pop(producer_id, None)

    def known_start(self, producer_id: int) -> KnownStart | None:
        return self._starts.get(producer_id)

    def learn_start(self, producer_id: int, transaction_start_ms: int, now: int) -> None:
        """What the coordinator was asked. What was verified here meanwhile is newer."""
        self._starts.setdefault(producer_id, (transaction_start_ms, now))

    def forget_start(self, producer_id: int, known: KnownStart) -> None:
        """The coordinator knows of another one, or nobody can say. What was learned since it was asked stays."""
        if self._starts.get(producer_id) is known:
            del self._starts[producer_id]

    def is_late_marker(
        self, producer_id: int, transaction_start_ms: int, is_open: bool
    ) -> bool | None:
        """Whether the marker is of another transaction than the one that is open here, or verified and about to open.
        Then it was written long ago: the coordinator lets a transaction begin only when every marker of the last one is
        written. None: it is not known here when the open one began.

        Clocks differ and are set back, so starts are told apart and not put in order. Epochs tell nothing here: a
        marker that fences has the epoch behind that of its transaction. Where nothing is open a marker decides
        nothing, and none is late: while the coordinator is being asked it may be the end of the very transaction it
        is asked about, and must take the guard away.
        """
        entry = self._entries.get(producer_id)
        if not transaction_start_ms or not (is_open or (entry is not None and entry.is_answered)):
            return False
        known = self._starts.get(producer_id)
        if known is None:
            return None
        return known[0] not in (0, transaction_start_ms)

    def is_verified(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.guard.verifies(guard)

    def appended(self, producer_id: int, producer_epoch: int, is_control: bool) -> None:
        """A transactional or control batch of this producer was written (rule 8 of facts 9).

        A TV2 entry at the marker's own epoch belongs to the transaction after the one the marker ends, and stays.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        if is_control and entry.supports_epoch_bump and entry.producer_epoch == producer_epoch:
            return
        del self._entries[producer_id]

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forget entries of this age: their producer never came back. Returns how many."""
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if now - entry.timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        for producer_id, (_, noted_at) in tuple(self._starts.items()):
            if now - noted_at >= expiration_ms:
                del self._starts[producer_id]
        return len(expired)
