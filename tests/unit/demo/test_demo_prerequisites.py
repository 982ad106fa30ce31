"""What is missing is said before anything starts, with the package that brings it."""

import pytest

from oncelog_server.demo import prerequisites
from oncelog_server.demo.prerequisites import java_version, missing_prerequisites


def pretend_java(folder, monkeypatch, text, code=0):
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {code}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_401"', 8),
        ("nothing of the kind", None),
    ],
)
def test_java_tells_its_version(tmp_path, monkeypatch, text, version):
    pretend_java(tmp_path, monkeypatch, text)
    assert java_version() == version


def test_a_java_that_does_not_run_is_no_java(tmp_path, monkeypatch):
    pretend_java(tmp_path, monkeypatch, "broken", code=1)
    assert java_version() is None


def test_an_old_java_is_named_with_the_package_to_install(tmp_path, monkeypatch):
    pretend_java(tmp_path, monkeypatch, 'openjdk version "11.0.2"')
    assert any(
        "Found Java 11" in line and "openjdk-17-jre-headless" in line
        for line in missing_prerequisites()
    )


def test_no_java_at_all_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any("No java was found" in line for line in missing_prerequisites())
    assert prerequisites.java_version() is None
