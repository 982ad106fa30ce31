"""Programs of the roles, as tests of this folder start them."""

import os
import subprocess
import sys

import pytest

PROGRAMS = (
    "oncelog_controller",
    "oncelog_storage",
    "oncelog_coordinator",
    "oncelog_marker_sender",
    "oncelog_listener",
    "oncelog_gateway",
)


@pytest.fixture
def run_program():
    """Start a program with its output captured; whatever still runs at the end is killed."""
    started = []

    def start(module, *arguments, python=(), **environment):
        process = subprocess.Popen(
            [sys.executable, *python, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**_clean_environment(), **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCELOG_")}
