"""Verification: a leader lets a transaction into a partition only when the coordinator knows of it
(docs/kafka-facts.md, 9).

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
"""The known start of a producer id's open transaction: (when the transaction began, when that was noted), in ms."""


class VerificationGuard:
    """A token for one verification. Two guards are equal only if they are the same object."""

    __slots__ = ()

    def verifies(self, other: "VerificationGuard | None") -> bool:
        """True if both are the same guard. SENTINEL_GUARD, of batches without verification, never verifies, even
        itself.
        """
        return self is other and self is not SENTINEL_GUARD


SENTINEL_GUARD = VerificationGuard()
"""The guard of a batch that needed no verification. It opens no transaction."""


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
        """True if the coordinator told when the transaction that is verified here began."""
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.timestamp = timestamp

    def saw(self, producer_epoch: int, sequence: int) -> None:
        """Record another batch under the same guard, to keep the lowest sequence. A newer epoch starts the sequences
        afresh.
        """
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class Verifications:
    """The verifications of one partition by producer id, and when open transactions began as the coordinator told."""

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
        """Return the guard under which the coordinator is asked about a producer's transaction.

        An entry is made if the producer id has none (rule 3 of docs/kafka-facts.md, 9).
        """
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
        """Store when the transaction began that the coordinator has verified, in ms.

        0: the coordinator told no time. A start time that was known before belongs to another transaction, and is
        dropped.
        """
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
        """Store when the open transaction began, as the coordinator told a leader that asked. A known start is kept.

        A start that was verified here meanwhile is newer.
        """
        self._starts.setdefault(producer_id, (transaction_start_ms, now))

    def forget_start(self, producer_id: int, known: KnownStart) -> None:
        """Drop the stored start time of a transaction, which the coordinator contradicts, or which nobody can confirm.

        A start time that was learnt since then stays.
        """
        if self._starts.get(producer_id) is known:
            del self._starts[producer_id]

    def is_late_marker(
        self, producer_id: int, transaction_start_ms: int, is_open: bool
    ) -> bool | None:
        """True if the marker belongs to another transaction than the one that is open here, or verified and about to
        open.

        Then the marker was written long ago: the coordinator lets a transaction begin only when every marker of the
        last one is written. None: this leader does not know when the open transaction began.

        Clocks differ and are set back, so starts are compared for equality only. Epochs tell nothing here: a marker
        that fences has a higher epoch than its transaction. If no transaction is open, no marker is late. While
        the coordinator is being asked, such a marker may end the very transaction in question, and must take the guard
        away.
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
        """Drop the producer's entry, because a transactional or control batch of it was written (rule 8 of
        docs/kafka-facts.md, 9).

        A TV2 entry at the marker's own epoch belongs to the transaction after the one the marker ends, and stays.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        if is_control and entry.supports_epoch_bump and entry.producer_epoch == producer_epoch:
            return
        del self._entries[producer_id]

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forget entries that are `expiration_ms` old: their producer never came back. Return their number."""
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
