"""The streams of nodes may end while the term does that watched them."""

import asyncio
from types import SimpleNamespace

from oncelog_controller import session_watch
from oncelog_controller.core.sessions import Sessions
from oncelog_controller.session_watch import SessionWatch

LONG_MS = 600_000


def watch_of_one_node(grace_ms, submit):
    node = SimpleNamespace(
        node_id=1,
        node_epoch=0,
        rpc_address="127.0.0.1:1",
        keeps_session=True,
        fenced=False,
        draining=False,
        given=False,
    )
    log = SimpleNamespace(image=SimpleNamespace(nodes={1: node}), submit=submit)
    return SessionWatch(Sessions(LONG_MS, grace_ms), log, lambda task: None)


async def test_a_stream_that_ends_with_its_term_begins_no_search():
    watch = watch_of_one_node(LONG_MS, lambda event: True)
    watch.begin()
    assert watch.opened(1, 0)
    # Several turns of the loop: it ends its tasks in one, and is over in another.
    ending = asyncio.create_task(watch.end())
    while not ending.done():
        watch.closed(1, 0)
        await asyncio.sleep(0)
    await ending


async def test_a_stream_that_breaks_brings_the_look_forward(monkeypatch):
    """Without that the watch would look again in ten minutes."""
    monkeypatch.setattr(session_watch, "LOOK_MS_MAX", LONG_MS)
    ended = asyncio.Event()
    watch = watch_of_one_node(0, lambda event: ended.set())
    watch.begin()
    watch.opened(1, 0)
    for _ in range(10):  # Turns of the loop: the watch begins its tasks, and plans its next look.
        await asyncio.sleep(0)
    watch.closed(1, 0)
    async with asyncio.timeout(60):
        await ended.wait()
    await watch.end()
