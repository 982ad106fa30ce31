"""A node with one topic, three nodes, and the folder of one log."""

import pytest
from tests.integration.storage.damage_judge import plain_settings  # noqa: F401
from tests.integration.storage.replica_cluster import running_cluster
from tests.integration.storage.storage_node import running, topic


@pytest.fixture
async def node(tmp_path):
    """It hosts the topic `orders`, with one partition."""
    async with running(tmp_path, topic("orders")) as found:
        yield found


@pytest.fixture
async def cluster(tmp_path):
    """Three nodes, and no topic yet."""
    async with running_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def directory(tmp_path):
    """Of a log without its node; a test makes it with `new_log`."""
    return tmp_path / "orders-0"
