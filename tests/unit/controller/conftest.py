"""A machine without records yet."""

import pytest
from tests.worlds.controller.metadata_cases import Bench


@pytest.fixture
def bench():
    return Bench()
