"""The streams of nodes may end while the term does that watched them."""

import asyncio
from types import SimpleNamespace

from oncelog_controller.core.sessions import Sessions
from oncelog_controller.session_watch import LOOK_MS_MAX, SessionWatch


async def test_a_stream_that_ends_with_its_term_begins_no_search():
    node = SimpleNamespace(
        node_id=1,
        node_epoch=0,
        rpc_address="127.0.0.1:1",
        keeps_session=True,
        fenced=False,
        draining=False,
    )
    log = SimpleNamespace(image=SimpleNamespace(nodes={1: node}), submit=lambda event: True)
    watch = SessionWatch(Sessions(600_000, 600_000), log, lambda task: None)
    watch.begin()
    assert watch.opened(1, 0)
    # Several turns of the loop: it ends its tasks in one, and is over in another.
    ending = asyncio.create_task(watch.end())
    while not ending.done():
        watch.closed(1, 0)
        await asyncio.sleep(0)
    await ending


async def test_a_stream_that_breaks_brings_the_look_forward():
    """While no session is near its end the watch looks seldom; a broken stream brings its look forward."""
    node = SimpleNamespace(
        node_id=1,
        node_epoch=0,
        rpc_address="127.0.0.1:1",
        keeps_session=True,
        fenced=False,
        draining=False,
        given=False,
    )
    ended = asyncio.Event()
    log = SimpleNamespace(image=SimpleNamespace(nodes={1: node}), submit=lambda event: ended.set())
    watch = SessionWatch(Sessions(600_000, 0), log, lambda task: None)
    watch.begin()
    watch.opened(1, 0)
    await asyncio.sleep(0)
    looked = asyncio.get_running_loop().time()
    watch.closed(1, 0)
    await ended.wait()
    assert asyncio.get_running_loop().time() - looked < LOOK_MS_MAX / 1000
    await watch.end()
