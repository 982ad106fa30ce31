"""A machine without records yet."""

import pytest
from tests.unit.controller.metadata_cases import Bench


@pytest.fixture
def bench():
    return Bench()
