"""What the tests with containers say when something is missing. Each is one sentence, with the way out."""

import subprocess

import pytest
from oncelog_robustness.chaos.containers.engine import Engine, find_engine
from tests.e2e import prepare as module
from tests.e2e.prepare import Missing

from oncelog.errors import OncelogError


def fake(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing but what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("ENGINE", "CONTAINERS_CONF", "BASE_IMAGE", "NETWORK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "is_root", lambda: False)
    return tmp_path


def test_the_first_engine_that_answers_is_taken(machine):
    fake(machine, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    with pytest.raises(OncelogError, match="docker is installed and does not answer: Cannot"):
        find_engine()
    fake(machine, "podman", "exit 0")
    assert find_engine() == Engine("podman")


def test_an_engine_that_is_named_and_not_there_is_named(machine):
    fake(machine, "podman", "exit 0")
    with pytest.raises(OncelogError, match="ENGINE names docker, which is not installed"):
        find_engine("docker")


def test_without_an_engine_and_without_root_the_way_out_is_said(machine):
    with pytest.raises(Missing, match=r"no container engine is installed\. Podman comes with apt"):
        module.working_engine()


def test_a_podman_that_runs_nothing_is_told_with_its_words(machine):
    fake(machine, "podman", "[ $1 = info ] || { echo 'cgroups in hybrid mode' >&2; exit 1; }")
    with pytest.raises(Missing, match=r"cannot run a container \(cgroups in hybrid mode\)"):
        module.working_engine()


def test_without_a_base_and_without_root_the_way_out_is_said(machine):
    fake(machine, "podman", "exit 1")
    with pytest.raises(
        Missing, match=r"podman cannot pull .*python:3.12-slim-bookworm; load it, or name"
    ):
        module.base_image(Engine("podman"))


def test_an_install_that_fails_names_the_packages(machine):
    fake(machine, "apt-get", "echo 'E: no network' >&2; exit 100")
    with pytest.raises(Missing, match="apt-get update failed: E: no network; install podman runc"):
        module.apt_install(("podman", "runc"))


def test_a_stand_in_that_cannot_be_built_names_its_variable(machine, monkeypatch):
    fake(machine, "podman", "echo 'no such host' >&2; exit 1")
    monkeypatch.setenv("NETWORK", "host")
    with pytest.raises(
        Missing, match=r"no image of redis: .*no such host.* name one as REDIS_IMAGE"
    ):
        module.third_party(Engine("podman"), "redis:7", "redis", lambda: "base")


def test_a_program_that_is_missing_is_named():
    with pytest.raises(Missing, match="cannot run no-such-program"):
        module.run(["no-such-program"], 1)
    assert isinstance(module.run(["true"], 5), subprocess.CompletedProcess)
