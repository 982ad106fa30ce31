"""What a run against a release looks at before it begins: who is there, what may be done, and what cannot."""

import pytest
from oncelog_robustness.chaos.pods import target as module
from oncelog_robustness.chaos.pods.needs import OF_NODES, Verb
from oncelog_robustness.chaos.pods.network import HELPER
from oncelog_robustness.chaos.pods.state import Said
from oncelog_robustness.chaos.pods.target import PodTarget
from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind
from tests.unit.robustness.pods_on_paper import Paper, pod

from oncelog.errors import OncelogError

NODES = '{"nodes": [{"node_id": 101, "fenced": false, "given": false}]}'


class Asked(Paper):
    """Answers also what is asked at the beginning; `refused` are verbs, `volume` a line of df."""

    def __init__(self, *contents, refused=(), volume="1073741824 /var/lib/oncelog", netem=0):
        super().__init__(*contents)
        self.refused = set(refused)
        self.volume = volume
        self.netem = netem

    def allows(self, verb):
        return verb not in self.refused

    def workload(self, role):
        done = {"observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1, "replicas": 1}
        return "Deployment", {
            "metadata": {"generation": 1},
            "spec": {"replicas": 1},
            "status": done,
        }

    def execute(self, pod, container, *command, timeout_s=0):
        if command[0] == "python":
            return Said(NODES, 0)
        if command[-1].startswith("df"):
            return Said(self.volume, 0)
        if container == HELPER and "netem" in command[-1]:
            return Said("Error: Specified qdisc kind is unknown.", self.netem)
        return Said("", 0)


def pods():
    numbers = {"controller": 1, "storage": 101, "coordinator": 201, "listener": 301}
    roles = (*numbers, "marker-sender", "gateway", "postgres", "redis")
    return [
        pod(role, f"log-oncelog-{role}-{numbers.get(role, 'x')}", machine=f"m{number % 2 + 1}")
        for number, role in enumerate(roles)
    ]


def started(paper, on_machines=True):
    target = PodTarget(paper, on_machines=on_machines)
    target.start(lambda name, state: None)
    return target


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "WELL_S", 0.05)
    monkeypatch.setattr(module, "LOOK_S", 0.01)


def test_a_cluster_that_allows_everything_gives_everything():
    target = started(Asked(*pods()))
    assert target.bootstrap == "log-oncelog-listener.prod:9092"
    assert target.members["storage"] == ["storage-101"]
    assert target.members["machines"] == ["machines-1", "machines-2"]
    assert target.members["postgres"] == ["postgres"]
    assert tuple(target.roles) == tuple(target.members)
    assert [one for one in target.limits if one.startswith("no ")] == []
    injector = target.injector(lambda strength: "")
    assert all(injector.can(kind) for kind in (*OF_MACHINES, FaultKind.DISK_FULL, FaultKind.DELAY))
    injector.close()


def limits_of(paper, *kinds):
    target = started(paper)
    injector = target.injector(lambda strength: "")
    injector.close()
    for kind in kinds:
        assert not injector.can(kind)
    return target, "\n".join(target.limits)


def test_without_rights_for_nodes_there_are_no_machines():
    target, limits = limits_of(Asked(*pods(), refused=OF_NODES), *OF_MACHINES)
    assert "machines" not in target.members
    assert "machines" not in target.roles
    assert "no machine-drain here: this account may not get, list, patch nodes" in limits


def test_machines_are_left_alone_unless_that_is_asked_for():
    target = started(Asked(*pods()), on_machines=False)
    assert "machines" not in target.members
    assert "no machine-lost here: machines are struck with --machines" in target.limits


def test_without_shared_processes_kills_are_deletions():
    contents = pods()
    del contents[0]["spec"]["shareProcessNamespace"]
    _, limits = limits_of(Asked(*contents), FaultKind.PAUSE)
    assert "no pause here: pods do not share their processes; the chart has chaos.enabled" in limits
    assert "kills are deletions here" in limits


def test_without_a_container_of_its_own_nothing_is_cut_off():
    refused = [Verb("", "pods/ephemeralcontainers", "patch")]
    kinds = [kind for kind in NETWORK if kind not in (FaultKind.CLOG, FaultKind.GHOST)]
    paper = Asked(*pods(), refused=refused)
    _, limits = limits_of(paper, *kinds)
    assert "no partition here: this account may not patch pods/ephemeralcontainers" in limits
    assert ("add", "log-oncelog-gateway-x") not in paper.calls


def test_a_kernel_without_netem_and_a_large_volume_are_told():
    paper = Asked(*pods(), netem=2, volume="270553174016 /var/lib/oncelog")
    _, limits = limits_of(paper, FaultKind.DELAY, FaultKind.DISK_FULL)
    assert "no delay here: no netem: Error: Specified qdisc kind is unknown." in limits
    assert "no disk-full here: the volume's file system has 252 GiB; up to 4 are filled" in limits


def test_one_machine_is_not_taken_away():
    contents = pods()
    for one in contents:
        one["spec"]["nodeName"] = "m1"
    _, limits = limits_of(Asked(*contents), *OF_MACHINES)
    assert "there is one machine, and nowhere else to go" in limits


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (list.clear, "has no pods with the label app.kubernetes.io/instance=log"),
        (lambda contents: contents.pop(5), "there are no pods of gateway"),
        (
            lambda contents: contents[1]["status"]["conditions"].clear(),
            "log-oncelog-storage-101 not Ready",
        ),
        (
            lambda contents: contents[1]["spec"]["volumes"].clear(),
            "pods of storage lose their data",
        ),
    ],
)
def test_a_run_does_not_begin_with_a_cluster_that_is_not_well(change, said):
    contents = pods()
    change(contents)
    with pytest.raises(OncelogError, match=said):
        started(Asked(*contents))


def test_who_may_not_even_look_is_told_what_is_missing():
    with pytest.raises(OncelogError, match="this account may not list pods"):
        started(Asked(*pods(), refused=[Verb("", "pods", "list")]))
