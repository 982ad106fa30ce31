"""Every page of the console, against every role in one process."""

import asyncio
import re
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.loops import UvLoopOfATest

from oncelog.process.sources import Sources
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

WAIT_S = 90
NAME = "pay<b>/1"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": UvLoopOfATest}


def read(gateway, path):
    """Also of a page that says what is wrong."""
    try:
        with urlopen(Request(gateway + path), timeout=WAIT_S) as answer:
            return answer.read().decode(), answer.headers
    except HTTPError as error:
        with error:
            return error.read().decode(), error.headers


def prepare(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic("orders", 1, 1)]).values()
    created.result(WAIT_S)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": NAME, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(WAIT_S) == 0
    return producer


PAGES = {
    "/": ("Overview", "orders-0"),
    "/transactions": ("pay&lt;b&gt;/1", "Ongoing"),
    "/slowest": ("pay&lt;b&gt;/1", "Of 1 transaction that this gateway remembers"),
    "/explain?subject=pay*": ("pay&lt;b&gt;/1", "Ongoing"),
    "/explain?subject=orders-0%400": ("nothing is decided",),
    "/transactions?state=CompleteAbort": ("No transaction matches",),
    "/transactions?id_pattern=pay*&late=1": ("No transaction matches",),
    "/transaction?id=pay%3Cb%3E%2F1": (
        ">open</span>",
        "<svg",
        "the transaction begins with",
        "What would",
    ),
    "/transaction?id=nobody": ("No coordinator knows",),
    "/partitions": ("orders-0",),
    "/partition?topic=orders&partition=0": (
        "is held back from offset 0 on",
        'class="held"',
        "pay&lt;b&gt;/1",
    ),
    "/partition?topic=orders&partition=7": ("there is no partition 7",),
    "/topics": ("orders", "browse", "kept for"),
    "/topics?topic=nothing": ("No topic",),
    "/topic?name=orders": ("Browse its records", "pay&lt;b&gt;/1", "held back by", "100 %"),
    "/topic?name=nothing": ("there is no topic",),
    "/records?topic=orders": ("open", "pay&lt;b&gt;/1", "<code>x</code>"),
    "/record?topic=orders&partition=0&offset=0": (
        "open",
        "pay&lt;b&gt;/1",
        "nothing is decided",
        "to end it now:</p>",
        "transactions terminate &#39;pay&lt;b&gt;/1&#39;</code></pre>",
        "can end it, and shows first",
    ),
    "/record?topic=orders&partition=0&offset=9": ("not written", "nothing was written there yet"),
    "/record?topic=orders&partition=0&offset=x": ("is no offset",),
    "/records?topic=orders&isolation=read_committed": (
        "gets no record here now",
        "1 offset held back",
    ),
    "/records?topic=orders&from=9&partition=0": ("there is no offset 9 in orders-0",),
    "/records?topic=orders&from=noon": ("is neither newest, oldest",),
    "/records?topic=orders&partition=x": ("is no partition",),
    "/records?topic=nothing": ("there is no topic",),
    "/producers": ("pay&lt;b&gt;/1", "no batch names a client.id"),
    "/groups": ("No group has read anything yet",),
    "/group?id=nobody": ("nobody",),
    "/sinks": ("No Spark query has written here",),
    "/explain?subject=orders-0": ("is held back from offset 0 on",),
    "/explain?subject=nobody": ("is no transactional.id",),
    "/explain": ("Name a transactional.id",),
    "/audit": ("terminate",),
    "/docs": ("REST reference", "/v1/explain"),
}


def pages_checked(addresses):
    """How many."""
    gateway = addresses.gateway
    producer = prepare(addresses.bootstrap)
    body = Request(
        f"{gateway}/v1/transactions/{'pay%3Cb%3E%2F1'}/terminate",
        b'{"dry_run": true}',
        {"Content-Type": "application/json"},
        method="POST",
    )
    urlopen(body, timeout=WAIT_S).close()
    for path, words in PAGES.items():
        text, headers = read(gateway, path)
        missing = [word for word in words if word not in text]
        assert not missing, (path, missing, text[-2_000:])
        assert NAME not in text, f"{path} shows a name as HTML"
        policy = headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        elsewhere = re.findall(r'(?:src|href|action)="(?:https?:)?//[^"]*', text)
        assert not elsewhere, path
    script, headers = read(gateway, "/console.js")
    assert headers["Content-Type"].startswith("text/javascript")
    assert "EventSource" in script
    producer.abort_transaction(WAIT_S)
    ended = awaited(gateway, "/transaction?id=pay%3Cb%3E%2F1", "CompleteAbort")
    assert "last-aborted" in ended
    assert "pill good" not in ended.split("</section>")[0]
    assert re.search(r"</time></b><span class=.soft.>aborted, took \d", ended)
    return len(PAGES)


def awaited(gateway, path, word):
    deadline = time.monotonic() + WAIT_S
    while word not in (text := read(gateway, path)[0]):
        assert time.monotonic() < deadline, text
    return text


async def test_every_page_shows_its_subject_and_asks_nobody_elsewhere(tmp_path):
    settings = EmbeddedSettings(port=0, gateway_port=0, data=tmp_path)
    async with embedded_roles(settings, tmp_path, Sources()) as addresses:
        assert await asyncio.to_thread(pages_checked, addresses) == len(PAGES)
