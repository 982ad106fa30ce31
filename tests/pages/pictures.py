"""Makes the README's pictures of the console, with real clients at work: `python -m tests.pages.pictures --minutes 9`.

One transaction is open and holds a topic back, one hangs, one client took a transactional.id over. The page of rates is
open all the time, so it has a reading for each step.
"""

import argparse
import contextlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import confluent_kafka
from playwright.sync_api import Browser, sync_playwright
from tests.incidents.scenes import consumer, new_topic, producer, raw, raw_produce
from tests.pages.clients import WAIT_S, begin, wake
from tests.pages.conftest import ARGUMENTS, CHROMIUM

from oncelog_server.demo.processes import OncelogServer

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
TOPICS: Final = {"clicks": 2, "orders": 4, "payments": 2, "ledger": 1, "shipments": 1, "stuck": 1}
BEFORE: Final = {
    "reports": ("clicks", 48_000),
    "warehouse-eu": ("shipments", 18_250),
    "dashboards": ("stuck", 12_480),
}
"""By group, the topic that it reads and the records that were there before."""
SHOTS: Final = (
    ("console-overview.png", "/", 1280, 1479),
    ("console-rates.png", "/rates", 1280, 1700),
    ("console-partition.png", "/partition?topic=stuck&partition=0", 1280, 1349),
    ("console-transaction.png", "/transaction?id=payments", 1200, 1180),
)
VERIFICATION: Final = "ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE"
"""Without it a transaction can be left hanging, as with Kafka before 3.6."""
SILENT_S: Final = 8.5
ABORTED: Final = 0.07


class Load:
    """Clients in threads, until the pictures are made. An error of one of them is raised at the end."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def run(self, work: Callable[[], None], every_s: float) -> None:
        """Run `work` again and again, `every_s` seconds apart on average."""
        pace = random.Random(len(self._threads))

        def loop() -> None:
            try:
                while not self._stopped.wait(every_s * pace.uniform(0.6, 1.4)):
                    work()
            except Exception as error:
                self._failures.append(error)  # `stop` tells it

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self._threads.append(thread)

    def writer(self, topic: str, count: int, size: int, every_s: float) -> None:
        client = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "client.id": topic}
        )
        numbers = random.Random(topic)

        def write() -> None:
            for _ in range(numbers.randint(count // 2, count)):
                client.produce(topic, numbers.randbytes(size))
            client.flush(WAIT_S)

        self.run(write, every_s)

    def transactions(self, name: str, topics: tuple[str, ...], every_s: float) -> None:
        client = producer(self.bootstrap, name)
        numbers = random.Random(name)
        self.run(lambda: one_transaction(client, topics, numbers), every_s)

    def reader(self, group: str, *topics: str) -> None:
        member = consumer(self.bootstrap, group)
        member.subscribe(list(topics))

        def read() -> None:
            if member.consume(500, 1.0):
                with contextlib.suppress(confluent_kafka.KafkaException):
                    member.commit(asynchronous=False)

        self.run(read, 0.5)

    def stop(self) -> None:
        self._stopped.set()
        for one in self._threads:
            one.join(WAIT_S)
        if self._failures:
            raise self._failures[0]


def one_transaction(
    client: confluent_kafka.Producer, topics: tuple[str, ...], numbers: random.Random
) -> None:
    client.begin_transaction()
    for topic in topics:
        for _ in range(numbers.randint(1, 3)):
            client.produce(topic, numbers.randbytes(80), partition=numbers.randrange(TOPICS[topic]))
    client.flush(WAIT_S)
    if numbers.random() < ABORTED:
        client.abort_transaction(WAIT_S)
    else:
        client.commit_transaction(WAIT_S)


def written(bootstrap: str, topic: str, count: int) -> None:
    client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(count):
        client.produce(topic, b"%08d" % number * 8)
        client.poll(0)
    assert client.flush(WAIT_S) == 0


def taken_over(bootstrap: str) -> None:
    """`app-1` writes, begins once more and is silent; `app-2` takes its transactional.id over and writes on."""
    numbers = random.Random(7)
    first = producer(bootstrap, "payments")
    for _ in range(45):
        one_transaction(first, ("orders", "payments"), numbers)
        time.sleep(numbers.expovariate(8))
    first.begin_transaction()
    first.produce("orders", b"x", partition=1)
    assert first.flush(WAIT_S) == 0
    time.sleep(SILENT_S)
    second = producer(bootstrap, "payments", "app-2")
    with contextlib.suppress(confluent_kafka.KafkaException):
        first.commit_transaction(WAIT_S)
    for _ in range(6):
        one_transaction(second, ("orders", "payments"), numbers)
        time.sleep(0.3)


def filled(server: OncelogServer) -> None:
    """What was there before. The server starts again, so no chart has the time in which it was written."""
    for topic, partitions in TOPICS.items():
        new_topic(server.bootstrap, topic, partitions)
    for group, (topic, count) in BEFORE.items():
        written(server.bootstrap, topic, count)
        member = consumer(server.bootstrap, group, topic)
        read = 0
        while read < count:
            read += len(member.consume(5_000, 1.0))
        member.commit(asynchronous=False)
        member.close()
    server.stop()
    server.start()


def worked(server: OncelogServer) -> Load:
    """The clients of a small shop, and what goes wrong in it."""
    bootstrap = server.bootstrap
    load = Load(bootstrap)
    for group, (topic, _) in BEFORE.items():
        load.reader(group, topic)
    load.reader("billing", "orders")
    load.reader("mail", "orders", "payments")
    load.writer("clicks", 16, 340, 0.25)
    for number in range(3):
        load.transactions(f"checkout-{number}", ("orders", "payments"), 0.8)
    load.transactions("ledger", ("ledger",), 1.0)
    time.sleep(20)
    load.held = begin(server, "pay-7", "shop-3", "shipments")
    raw(bootstrap, lambda one: raw_produce(one, "stuck", "nobody", 999_999, 3))
    load.writer("shipments", 8, 120, 1.0)
    load.writer("stuck", 4, 120, 1.5)
    return load


def shot(
    browser: Browser, images: Path, gateway: str, name: str, path: str, width: int, height: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", base_url=gateway
    )
    page = context.new_page()
    page.goto(path)
    page.get_by_text("live", exact=True).wait_for()
    page.screenshot(path=images / name)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9, help="how long clients work before")
    parser.add_argument("--folder", type=Path, default=IMAGES, help="where the pictures go")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        OncelogServer(
            Path(folder) / "data", environment=os.environ | {VERIFICATION: "false"}
        ) as server,
    ):
        filled(server)
        wake(server)
        load = worked(server)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            watching = browser.new_page(base_url=server.gateway)
            watching.goto("/rates")
            watching.wait_for_timeout(given.minutes * 60_000)
            taken_over(server.bootstrap)
            for name, path, width, height in SHOTS:
                shot(browser, given.folder, server.gateway, name, path, width, height)
            browser.close()
        load.stop()


if __name__ == "__main__":
    main()
