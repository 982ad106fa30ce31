"""The jars that a pom names, from Maven's repositories: for tests and benchmarks beside Apache Kafka."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

MAVEN_TIMEOUT_S: Final = 300


class NoJarsError(Exception):
    """Maven is not there, or cannot fetch them; the text says which."""


def fetched_jars(cache: Path, pom: Path) -> Path:
    """The folder of the jars, fetched once for each pom. Raises NoJarsError."""
    jars = cache / f"jars-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if jars.exists():
        return jars
    for tool in ("mvn", "java"):
        if shutil.which(tool) is None:
            raise NoJarsError(f"Apache Kafka needs {tool}, which is not installed: make jdk")
    cache.mkdir(parents=True, exist_ok=True)
    fresh = cache / f"{jars.name}-{os.getpid()}"
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    result = subprocess.run(
        [*command, f"-DoutputDirectory={fresh}"],
        capture_output=True,
        text=True,
        timeout=MAVEN_TIMEOUT_S,
        check=False,
    )
    if result.returncode != 0:
        raise NoJarsError(f"Maven cannot fetch Kafka's jars: {result.stdout.strip()[-300:]}")
    try:
        fresh.rename(jars)
    except OSError:
        shutil.rmtree(fresh)
    return jars
