import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster


@pytest.fixture
async def cluster(tmp_path):
    """A test whose gateway needs settings of its own calls `gateway_cluster` itself."""
    async with gateway_cluster(tmp_path) as made:
        yield made
