"""The notebook of the audit runs from its first cell to its last, on a real log, and draws what it says."""

import json

import pytest
from tests.incidents.scenes import new_topic, producer, write
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.topic_tools import ROOT

NOTEBOOK = ROOT / "examples" / "log_audit" / "audit.ipynb"
FIGURES = {"findings", "standstills", "holders", "durations"}


@pytest.fixture
def data(tmp_path):
    """Of a log that was killed while a transaction was open."""
    server = OncelogProcess(tmp_path)
    server.start()
    bootstrap = str(server.address)
    new_topic(bootstrap, "orders", 2)
    for name, ends in (("quick", "commit"), ("wrong", "abort"), ("slow", None)):
        writer = producer(bootstrap, name)
        write(writer, "orders", b"a", b"b")
        if ends:
            getattr(writer, f"{ends}_transaction")()
    server.kill()
    return tmp_path / "data"


@pytest.mark.slow
def test_every_cell_runs_and_draws(spark, data, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    monkeypatch.setenv("AUDITED_FOLDERS", str(data))
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(one.get("outputs") for one in cells)
    names = {}
    for number, one in enumerate(cells):
        if one["cell_type"] == "code":
            exec(compile("".join(one["source"]), f"cell {number}", "exec"), names)
    assert "note  orders-0: the transaction of slow (producer" in capsys.readouterr().out
    assert set(pyplot.get_figlabels()) == FIGURES
    for name in FIGURES:
        (axes,) = pyplot.figure(name).axes
        assert axes.patches or axes.collections, f"{name} is empty"
    pyplot.close("all")
