"""The command and the services speak to Kafka by oncelog's own client. Another one is for tests, which judge ours."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OTHER = "confluent_kafka"


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_no_module_of_oncelog_imports_another_client():
    paths = [one for folder in ("src", "services") for one in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    found = {str(one) for one in paths for name in imported(one) if name.split(".")[0] == OTHER}
    assert not found


def test_a_plain_install_brings_no_other_client():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = [*project["dependencies"], *extras["roles"], *extras["server"], *extras["spark"]]
    assert not [one for one in names if "confluent" in one]
    for lock in ("base", "roles", "server", "spark"):
        assert "confluent" not in (ROOT / f"requirements/{lock}.lock").read_text()
