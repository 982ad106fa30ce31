"""Whatever gets lost or is evicted, a node that answers a Fetch knows what it asks for (KIP-227)."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.core.fetch_session import FIRST_EPOCH, LAST_EPOCH, NO_SESSION, FetchSession
from oncelog.client.core.partition_state import Fetch, FetchPart
from oncelog.errors import ErrorCode
from oncelog.ids import Partition


class Node:
    """A broker's side: one session at most, by the rules of KIP-227."""

    def __init__(self):
        self.id, self.epoch, self.kept, self.ids_given = NO_SESSION, 0, {}, 0
        self.has_ids = True

    def _named(self, part):
        return part.partition, part.topic_id if self.has_ids else b""

    def take(self, asked, has_room, has_ids):
        """Error, session id, what it reads for the client."""
        if asked.epoch in (FIRST_EPOCH, LAST_EPOCH):
            self.id, self.kept, self.epoch, self.has_ids = NO_SESSION, {}, 1, has_ids
            if has_room and asked.epoch == FIRST_EPOCH:
                self.ids_given += 1
                self.id = self.ids_given
        elif asked.session_id != self.id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION, {}
        elif asked.epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, {}
        elif has_ids != self.has_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, NO_SESSION, {}
        else:
            self.epoch += 1
        # First what is new, then what is forgotten, as brokers do.
        self.kept.update((self._named(part), part) for part in asked.parts)
        for part in asked.forgotten:
            del self.kept[self._named(part)]
        return ErrorCode.NONE, self.id, dict(self.kept)


parts = st.dictionaries(
    st.integers(0, 4),
    st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([b"i", b"o"])),
)
outcomes = st.sampled_from(["told", "told", "told", "request lost", "answer lost", "evicted"])
fetches = st.lists(st.tuples(parts, outcomes, st.booleans(), st.sampled_from([True] * 4 + [False])))


@given(fetches)
def test_a_node_that_answers_knows_what_is_asked(steps):
    session, node = FetchSession(), Node()
    for wanted, outcome, has_room, has_ids in steps:
        if outcome == "evicted":
            node.id = NO_SESSION
        for _ in range(2):
            fetch = Fetch(
                1,
                1000,
                tuple(
                    FetchPart(Partition("t", number), offset, 0, 100, version, topic_id)
                    for number, (offset, version, topic_id) in wanted.items()
                ),
            )
            asked = session.ask(fetch, has_ids=has_ids)
            if outcome == "request lost":
                session.lost()
                break
            error, session_id, read = node.take(asked, has_room, has_ids)
            if outcome == "answer lost":
                session.lost()
                break
            told = {partition for partition, _ in read}
            if error is ErrorCode.NONE:
                assert {one[:4] for one in read.values()} == {one[:4] for one in fetch.parts}
                assert not has_ids or {one[5] for one in read.values()} == {
                    one[5] for one in fetch.parts
                }
            if session.answered(error, session_id, told):
                assert error is ErrorCode.NONE
                break
        else:
            raise AssertionError("the second try names all, and is answered")
