"""What a scenario file may ask of a workload."""

import pytest
from oncelog_robustness.history import RECORDS_DELETED_FROM
from oncelog_robustness.workloads.catalog import KINDS, facts_about, make_workload


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_workload_with_defaults(kind):
    workload = make_workload(kind, f"a-{kind}", {})
    assert workload.name == f"a-{kind}"


@pytest.mark.parametrize(
    ("kind", "parameters", "named"),
    [
        ("transactions", {"abort_share": 1.1}, "abort_share"),
        ("bank", {"accounts": 1}, "accounts"),
        ("hijack", {"contenders": 1}, "contenders"),
        ("gossip", {}, "there are bank, churn"),
    ],
)
def test_what_is_unknown_or_out_of_bounds_is_refused(kind, parameters, named):
    with pytest.raises(ValueError, match=named):
        make_workload(kind, "w", parameters)


def test_checkers_are_told_of_which_topics_records_are_deleted():
    workloads = [{"kind": "churn"}, {"kind": "plain"}, {"kind": "churn", "name": "other"}]
    assert facts_about(workloads) == {RECORDS_DELETED_FROM: "churn other"}
    assert facts_about([{"kind": "bank"}]) == {RECORDS_DELETED_FROM: ""}
