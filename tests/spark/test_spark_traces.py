"""Each attempt of a micro-batch is one trace, from Spark's driver and tasks to the markers (ADR 0028)."""

import pytest
from tests.integration.telemetry.trace_receiver import names
from tests.spark.call_proxy import CallProxy, Fault
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.topic_tools import Lab

IN_EACH = (
    "open attempt",
    "OpenAttempt",
    "client OpenAttempt",
    "task 0",
    "task 1",
    "JoinAttempt",
    "client JoinAttempt",
    "write rows",
    "client Produce",
    "SealBranch",
    "client SealBranch",
    "commit batch",
    "CommitBatch",
    "state append",
    "markers",
    "completed (state append)",
)


@pytest.fixture
def lab(spark, traces, tmp_path):
    """A lab whose cluster records spans too."""
    proxy = CallProxy()
    proxy.start()
    server = OncelogProcess(tmp_path, proxy.address.port, traces.environment())
    server.start()
    proxy.upstream = lambda: server.address
    lab = Lab(spark, proxy, tmp_path, "traced")
    yield lab
    lab.close()
    server.stop()
    proxy.close()


def test_a_committed_and_an_aborted_attempt_are_one_tree_each(lab, traces):
    lab.fill(["a", "b", "c", "d"])
    lab.proxy.plan("CommitBatch", Fault.REFUSE)
    with pytest.raises(Exception, match="a fault of the test"):
        lab.copy()
    lab.copy()
    assert lab.visible_settled() == ["a", "b", "c", "d"]
    aborted, committed = traces.attempts(lab.sink_id, count=2)
    for trace in (aborted, committed):
        assert trace.is_connected, (trace.roots, trace.orphans)
        assert not [name for name in IN_EACH if name not in names(trace)], names(trace)
        services = {one.service for one in trace.spans}
        assert services == {"oncelog", "oncelog-spark"}
        rows = [
            one.attributes["oncelog.rows"] for one in trace.spans if one.name.startswith("task")
        ]
        assert sum(rows) == 4
    outcomes = [one.roots[0].attributes["oncelog.outcome"] for one in (aborted, committed)]
    assert outcomes == ["abort", "commit"]
    assert "abort batch" in names(aborted)
    assert [one.error for one in aborted.spans if one.name == "commit batch"] != [""]
    assert not [one for one in committed.spans if one.error]
    assert committed.roots[0].attributes["oncelog.batch_id"] == 0
    (decided,) = [one for one in committed.spans if one.name == "client CommitBatch"]
    assert decided.attributes["oncelog.decision"] == "committed"
