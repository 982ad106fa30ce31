"""Fixtures for tests that need a Kafka-compatible log, and its faults. pytest finds them where oncelog is installed.

    def test_orders(oncelog_broker):
        producer = Producer({"bootstrap.servers": oncelog_broker.bootstrap_servers})

One log serves a whole session; with pytest-xdist each worker has its own. Tests keep apart by the names of their
topics, groups and transactional ids. `oncelog_own_broker` is for a test that needs a log to itself.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from oncelog.embedded import RunningLog
    from oncelog.faults import Faults


@pytest.fixture(scope="session")
def oncelog_broker() -> "Iterator[RunningLog]":
    """A running log; `.bootstrap_servers` is its address for Kafka clients, `.rest_url` that for REST. Faults that a
    test sets by `.faults` last until they are released; those of `oncelog_faults`, for one test."""
    # Imported late: most sessions that load this plugin never ask for a log.
    from oncelog.embedded import running

    with running(faults=True) as log:
        yield log


@pytest.fixture
def oncelog_faults(oncelog_broker: "RunningLog") -> "Iterator[Faults]":
    """The faults of `oncelog_broker`, for one test: they end with it, also when it fails."""
    yield oncelog_broker.faults
    oncelog_broker.faults.clear()


@pytest.fixture
def oncelog_own_broker() -> "Iterator[RunningLog]":
    """A log for one test alone, with faults."""
    from oncelog.embedded import running

    with running(faults=True) as log:
        yield log
