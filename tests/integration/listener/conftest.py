"""A listener runs on uvloop, and so do its tests."""

import pytest
from tests.certificates import Authority
from tests.integration.listener.secured_log import running_log, secured_log
from tests.loops import UvLoopOfATest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": UvLoopOfATest}


@pytest.fixture
def world():
    """Of a listener: the topic `orders` has one partition."""
    return World(topic("orders", 1))


@pytest.fixture
def bootstrap(tmp_path):
    """Of a fresh oncelog."""
    with running_log(tmp_path) as found:
        yield found


@pytest.fixture
def secured(tmp_path):
    """A fresh oncelog with ACLs, whose outer listener wants a login by SCRAM."""
    with secured_log(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))
