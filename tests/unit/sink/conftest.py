"""A shard's machine of sinks that knows none yet."""

import pytest
from tests.worlds.sink.sink_shell import SinkShell


@pytest.fixture
def shell():
    return SinkShell()
