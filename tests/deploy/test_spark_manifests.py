"""deploy/spark is what the chart makes: `make spark-manifests`."""

import subprocess

import pytest
import yaml
from tests.deploy.conftest import ROOT, component


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    subprocess.run(["bash", str(ROOT / "scripts" / "spark_manifests.sh"), str(folder)], check=True)
    return folder


@pytest.mark.parametrize("mode", ["local", "executors"])
def test_the_manifests_are_those_of_the_chart(made, mode):
    kept = (ROOT / "deploy" / "spark" / f"{mode}.yaml").read_text()
    assert kept == (made / f"{mode}.yaml").read_text(), "run make spark-manifests"
    objects = [one for one in yaml.safe_load_all(kept) if one]
    assert {component(one) for one in objects} == {"spark-driver", "payments"}
    assert "helm.sh/hook" not in kept
