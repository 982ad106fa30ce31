"""One cluster for all tests of a module: containers of our own, or what kubectl points at.

make e2e                         containers
make e2e CLUSTER=current         a release of the chart; ONCELOG_E2E_NAMESPACE, _RELEASE, _BOOTSTRAP say which
"""

import contextlib
import os

import pytest
from tests.e2e.place import open_place
from tests.e2e.prepare import Missing, prepare

from oncelog.errors import OncelogError


@pytest.fixture(scope="session")
def prepared():
    """The images, where we start the cluster ourselves."""
    if os.environ.get("CLUSTER", "") == "current":
        return
    try:
        prepare()
    except (Missing, OncelogError) as missing:
        pytest.skip(f"no containers: {missing}")


@pytest.fixture(scope="module")
def place(prepared):
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(open_place())
        except OncelogError as error:
            pytest.fail(f"no cluster to test: {error}", pytrace=False)
        print(f"\n{running.name}: ready after {running.started_s:.1f} s")
        yield running
