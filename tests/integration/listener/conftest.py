"""A listener runs on uvloop, and so do its tests."""

import pytest
from tests.loops import UvLoopOfATest


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": UvLoopOfATest}
