import pytest
from tests.unit.robustness.checkers.made_history import MadeHistory


@pytest.fixture
def made():
    return MadeHistory()
