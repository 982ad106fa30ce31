"""A fixture for tests that need a Kafka-compatible log: `oncelog_broker`. pytest finds it where oncelog is installed.

    def test_orders(oncelog_broker):
        producer = Producer({"bootstrap.servers": oncelog_broker.bootstrap_servers})

One log serves a whole session; with pytest-xdist each worker has its own. Tests keep apart by the names of their
topics, groups and transactional ids.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from oncelog.embedded import RunningLog


@pytest.fixture(scope="session")
def oncelog_broker() -> "Iterator[RunningLog]":
    """A running log; `.bootstrap_servers` is its address for Kafka clients, `.rest_url` that for REST."""
    # Imported late: most sessions that load this plugin never ask for a log.
    from oncelog.embedded import running

    with running() as log:
        yield log
