"""What is around a coordinator."""

import pytest
from tests.contracts.shard_storage import Cluster


@pytest.fixture
def cluster():
    return Cluster()
