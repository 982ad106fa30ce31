import pytest
from oncelog_robustness.simulator.network import CALM
from tests.simulation.small_net import SmallNet


@pytest.fixture
def profile():
    """Other profiles: `@pytest.mark.parametrize("profile", [...])`."""
    return CALM


@pytest.fixture
def net(profile):
    """An async test that has it runs on the loop of its world."""
    return SmallNet(profile=profile)
