"""Checks for the software that the demo needs beyond oncelog itself, before anything is started."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_MIN = 17
JAVA_TIMEOUT_S = 20.0
JAVA_HELP = (
    f"Java {JAVA_MIN} or newer, for Spark. Debian and Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17"
)
SPARK_HELP = "PySpark 4.3 with pyarrow and pandas: pip install 'oncelog[spark]'"
CONNECTOR_HELP = (
    "the oncelog data source for Spark, which comes with oncelog: install oncelog again"
)


def missing_prerequisites() -> list[str]:
    """Return one line for everything that is missing, with the way to get it. Empty when the demo can run."""
    missing = []
    version = java_version()
    if version is None:
        missing.append(f"{JAVA_HELP}. No java was found.")
    elif version < JAVA_MIN:
        missing.append(f"{JAVA_HELP}. Found Java {version}.")
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "pyarrow", "pandas")):
        missing.append(SPARK_HELP)
    if importlib.util.find_spec("pyspark_oncelog") is None:
        missing.append(CONNECTOR_HELP)
    return missing


def java_version() -> int | None:
    """Return the major version of the java that Spark would take: that of JAVA_HOME, else the one on PATH. None
    without one.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None
