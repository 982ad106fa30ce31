"""Each token is in exactly one place."""

from oncelog_robustness.checkers.token_ring import check
from oncelog_robustness.workload_facts import TokenRing, token_value
from tests.unit.robustness.checkers.made_history import MadeHistory


def ring(
    *places: list[tuple[int, int, int]], consumed: str | None, tokens=1, **final
) -> MadeHistory:
    """Each place lists (offset, token, hop)."""
    made = MadeHistory()
    made.note(TokenRing(topic="r", places=len(places), tokens=tokens, group="g"))
    for number, records in enumerate(places):
        reads = [f"{at} {token_value(token, hop, f'u{number}.{at}')}" for at, token, hop in records]
        made.final(f"r-{number}", *reads, **final)
    if consumed is not None:
        made.fetched(f"g: {consumed}", final=True)
    return made


def test_a_token_on_its_way_is_fine():
    made = ring([(0, 0, 0), (3, 0, 2)], [(0, 0, 1)], consumed="r-0@1 r-1@1")
    made.assert_ok(check, judged=1)


def test_an_unmoved_token_is_fine_if_its_group_never_committed():
    ring([(0, 0, 0)], [(0, 1, 0)], consumed="r-0@-1 r-1@-1", tokens=2).assert_ok(check)


def test_a_token_of_a_group_nobody_asked_may_have_been_taken():
    ring([(0, 0, 0)], [], consumed=None).assert_unknown(check, "group g")


def test_a_doubled_token_is_named():
    made = ring([(0, 0, 0)], [(0, 0, 1), (5, 0, 1)], consumed="r-0@1 r-1@0")
    made.assert_broken(check, "token 0", "r-1@0", "r-1@5", "twice")


def test_a_token_that_was_taken_but_not_put_is_lost():
    made = ring([(0, 0, 0)], [], consumed="r-0@1 r-1@-1")
    made.assert_broken(check, "token 0", "r-0@0", "put nowhere")


def test_a_token_that_was_put_but_not_taken_is_doubled():
    made = ring([(0, 0, 0)], [(0, 0, 1)], consumed="r-0@0 r-1@-1")
    made.assert_broken(check, "token 0", "take it from hop 0 at r-0@0", "again")


def test_a_missing_hop_is_named():
    made = ring([(0, 0, 0), (3, 0, 2)], [], consumed=None)
    made.assert_broken(check, "token 0", "without a hop")


def test_a_token_that_is_nowhere_is_lost():
    ring([(0, 0, 0)], [], consumed=None, tokens=2).assert_broken(check, "token 1", "lost")


def test_a_token_that_jumped_is_named():
    made = ring([(0, 0, 0)], [], [(0, 0, 1)], consumed=None)
    made.assert_broken(check, "not next")


def test_a_stranger_is_named():
    ring([(0, 0, 0), (1, 7, 0)], consumed=None).assert_broken(check, "token 7")


def test_a_ring_that_was_not_read_as_a_whole_is_not_judged():
    ring([(0, 0, 0)], [], consumed=None, complete=False).assert_unknown(check, "r-0")
    ring([(5, 0, 0)], [], consumed=None, start=5).assert_unknown(check, "r-0")
    made = MadeHistory()
    made.note(TokenRing(topic="r", places=1, tokens=1, group="g"))
    made.assert_unknown(check, "r-0")
    MadeHistory().assert_unknown(check, "no ring")
