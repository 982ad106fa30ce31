"""What the API says of pods, turned into names of a plan, findings and reasons."""

import pytest
from oncelog_robustness.chaos.plan import POD_DECKS
from oncelog_robustness.chaos.pods.gateway import unsettled
from oncelog_robustness.chaos.pods.injector import is_rolled_out
from oncelog_robustness.chaos.pods.needs import NEEDED, OF_NODES, TO_LOOK
from oncelog_robustness.chaos.pods.network import HELPER, cut_script, heal_script, helper_patch
from oncelog_robustness.chaos.pods.state import losses, named, pod_from
from oncelog_robustness.chaos.pods.target import outside_addresses, tools_image_of, why_not_fill
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from tests.unit.robustness.pods_on_paper import pod

from oncelog.errors import OncelogError


def seen(*contents):
    return {one.uid: one for one in map(pod_from, contents)}


def losses_of(before, after, struck=()):
    return [loss.text for loss in losses(before, after, set(struck))]


def test_a_pod_is_what_the_api_says_of_it():
    found = pod_from(
        pod("storage", "log-oncelog-storage-101", restarts=2, ended=("OOMKilled", 137))
    )
    assert (found.role, found.number, found.machine) == ("storage", 101, "m1")
    assert found.is_ready
    assert found.shares_processes
    assert found.container == "storage"
    assert found.restarts == 2
    assert found.containers[0].ended == "OOMKilled, exit code 137"


def test_a_pod_not_scheduled_yet_has_no_machine():
    content = pod("storage", "log-oncelog-storage-101")
    content["status"] = {"phase": "Pending"}
    del content["spec"]["nodeName"]
    found = pod_from(content)
    assert (found.machine, found.ip, found.is_ready, found.restarts) == ("", "", False, 0)


def test_pods_have_the_names_of_a_plan():
    leaving = pod("gateway", "log-oncelog-gateway-6d5f-zzzzz")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    pods = [
        pod("storage", "log-oncelog-storage-101"),
        pod("marker-sender", "log-oncelog-marker-sender-77cc-bbbbb"),
        pod("marker-sender", "log-oncelog-marker-sender-77cc-aaaaa"),
        pod("postgres", "log-oncelog-postgres-0"),
        leaving,
    ]
    found = {name: one.name for name, one in named(map(pod_from, pods)).items()}
    # Without a number of its own, the older one is the first.
    assert found == {
        "storage-101": "log-oncelog-storage-101",
        "marker-sender-1": "log-oncelog-marker-sender-77cc-bbbbb",
        "marker-sender-2": "log-oncelog-marker-sender-77cc-aaaaa",
        "postgres-1": "log-oncelog-postgres-0",
    }


def restarted(content, reason, code):
    again = {**content, "status": {**content["status"]}}
    status = dict(content["status"]["containerStatuses"][0])
    status["restartCount"] += 1
    status["lastState"] = {"terminated": {"reason": reason, "exitCode": code}}
    again["status"]["containerStatuses"] = [status]
    return again


def test_a_process_that_ended_without_a_fault_is_a_finding():
    one = pod("storage", "storage-101")
    before, after = seen(one), seen(restarted(one, "Error", 1))
    assert losses_of(before, after) == ["storage-101 on m1 ended by itself: Error, exit code 1"]
    assert losses_of(before, after, ["storage"]) == []
    assert losses_of(after, after) == []


def test_memory_that_ran_out_is_a_finding_whatever_was_struck():
    one = pod("storage", "storage-101")
    after = seen(restarted(one, "OOMKilled", 137))
    expected = ["storage-101 on m1 ended by itself: OOMKilled, exit code 137"]
    assert losses_of(seen(one), after, ["storage"]) == expected


def test_a_pod_that_went_without_a_fault_is_a_finding():
    one, other = pod("listener", "listener-301"), pod("listener", "listener-302")
    assert losses_of(seen(one, other), seen(one)) == [
        "listener-302 was removed, and no fault did it"
    ]
    assert losses_of(seen(one, other), seen(one), ["listener"]) == []
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert losses_of(seen(one, other), seen(one)) == []


def test_a_pod_that_its_machine_threw_out_is_a_finding():
    one = pod("gateway", "gateway-x")
    evicted = {**one, "status": {**one["status"], "reason": "Evicted"}}
    assert losses_of(seen(one), seen(evicted)) == ["gateway-x on m1 was ended: Evicted"]
    assert losses_of(seen(evicted), seen(evicted)) == []


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_a_rollout_is_over_when_every_pod_is_new_and_ready(kind):
    status = {"observedGeneration": 4, "updatedReplicas": 3, "readyReplicas": 3, "replicas": 3}
    if kind == "StatefulSet":
        status |= {"currentRevision": "b", "updateRevision": "b"}
    thing = {"metadata": {"generation": 4}, "spec": {"replicas": 3}, "status": status}
    assert is_rolled_out(thing)
    for change in (
        {"observedGeneration": 3},
        {"updatedReplicas": 2},
        {"readyReplicas": 2},
        {"replicas": 4},
        *([{"currentRevision": "a"}] if kind == "StatefulSet" else []),
    ):
        assert not is_rolled_out({**thing, "status": status | change}), change


def fault(kind, strength=0.5):
    return PlannedFault(0, 1_000, kind, "storage-101", strength)


def test_a_cut_drops_both_ways_and_the_loopback_never():
    whole = cut_script(fault(FaultKind.PARTITION), [])
    assert whole.count("-j DROP") == 2
    assert "INPUT 1 ! -i lo" in whole
    pair = cut_script(fault(FaultKind.PARTITION_PAIR), ["10.0.0.7"])
    assert "-s 10.0.0.7 -j DROP" in pair
    assert "-d 10.0.0.7 -j DROP" in pair
    one_way = cut_script(fault(FaultKind.PARTITION_ONE_WAY), [])
    assert one_way.count("-j DROP") == 1
    assert "-A ONCELOG-CHAOS-OUT -j DROP" in one_way
    assert "tcp-reset" in cut_script(fault(FaultKind.RESET), [])
    assert "netem delay 300ms" in cut_script(fault(FaultKind.DELAY, 1.0), [])


def test_what_a_cut_makes_healing_removes():
    healed = heal_script()
    for chain in ("ONCELOG-CHAOS-IN", "ONCELOG-CHAOS-OUT"):
        assert f"-X {chain}" in healed
    assert "tc qdisc del dev eth0 root" in healed


def test_the_helper_may_change_its_pods_network_and_nothing_else():
    (container,) = helper_patch("oncelog/tools:0.1.0", "storage")["spec"]["ephemeralContainers"]
    assert container["name"] == HELPER
    rights = container["securityContext"]["capabilities"]
    assert rights == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_every_kind_that_pods_are_dealt_says_what_it_needs():
    assert set(NEEDED) == {kind for deck in POD_DECKS.values() for kind in deck}
    assert all(verbs is not None for verbs in NEEDED.values())
    assert not TO_LOOK & OF_NODES


def test_clients_outside_are_told_what_each_listener_tells_them():
    value = "301=$(MACHINE_IP):30094,302=log.example.org:9094"
    env = [{"name": "ONCELOG_LISTENER_EXTERNAL_ADVERTISED", "value": value}]
    pods = []
    for number in (302, 301):
        spec = {"containers": [{"name": "listener", "image": "x", "env": env}]}
        pods.append(pod_from(pod("listener", f"log-oncelog-listener-{number}", spec=spec)))
    assert outside_addresses(pods) == ["192.0.2.1:30094", "log.example.org:9094"]
    assert outside_addresses([pod_from(pod("listener", "log-oncelog-listener-301"))]) == []


def test_the_tools_are_where_the_other_images_are():
    storage = pod("storage", "storage-101")
    image = storage["spec"]["containers"][0]
    image["image"] = "registry:5000/team/oncelog/storage:1.2"
    assert tools_image_of([pod_from(storage)]) == "registry:5000/team/oncelog/tools:1.2"
    image["image"] = "mine@sha256:0"
    with pytest.raises(OncelogError, match="--tools-image"):
        tools_image_of([pod_from(storage)])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1073741824 /var/lib/oncelog\n", ""),
        ("1073741824 /\n", "/var/lib/oncelog is no volume of its own"),
        ("536870912000 /var/lib/oncelog", "has 500 GiB; up to 4 are filled"),
        ("df: nothing here", "cannot be seen"),
    ],
)
def test_only_a_small_volume_of_its_own_is_filled(line, reason):
    assert (reason in why_not_fill(line)) if reason else why_not_fill(line) == ""


def answers(**changed):
    node = {"node_id": 101, "fenced": False, "given": False}
    found = {
        "cluster": {
            "nodes": [node],
            "leaderless_partition_count": 0,
            "unowned_shard_count": 0,
        },
        "partitions": {"partitions": [], "incomplete": []},
        "transactions": {"transactions": [], "incomplete": []},
        "hanging": {"hanging": [], "incomplete": []},
        "queues": {"marker_queues": [], "incomplete": []},
    }
    for name, value in changed.items():
        found[name] = found[name] | value
    return list(found.values())


def test_a_settled_cluster_has_nothing_to_tell():
    assert unsettled(answers(), 1) == []


@pytest.mark.parametrize(
    ("is_given", "said"), [(True, []), (False, ["nodes out of service: 1003"])]
)
def test_a_node_does_not_come_back_under_a_given_id(is_given, said):
    nodes = [
        {"node_id": 1003, "fenced": True, "given": is_given},
        {"node_id": 1004, "fenced": False, "given": True},
    ]
    assert unsettled(answers(cluster={"nodes": nodes}), 1) == said


def open_transaction(state, *, late=False):
    row = {"transactional_id": "pulse", "state": state, "is_late": late}
    return {"transactions": {"transactions": [row]}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cluster": {"nodes": []}}, "0 of 1 nodes are in service"),
        ({"cluster": {"leaderless_partition_count": 2}}, "leaderless partitions: 2"),
        (
            {
                "partitions": {
                    "partitions": [
                        {
                            "topic": "t",
                            "partition": 0,
                            "failure": None,
                            "under_replicated": True,
                            "replicas": [101, 102],
                            "isr": [101],
                        }
                    ]
                }
            },
            "t-0 has replicas [101, 102], in sync [101]",
        ),
        (open_transaction("PrepareCommit"), "pulse is in PrepareCommit"),
        (open_transaction("Ongoing", late=True), "pulse is in Ongoing"),
        (
            {"hanging": {"hanging": [{"topic": "t", "partition": 0, "producer_id": 7}]}},
            "t-0 has a hanging transaction of producer 7",
        ),
        ({"queues": {"incomplete": [{"detail": "nobody there"}]}}, "not complete: nobody there"),
    ],
)
def test_what_is_not_settled_is_named(changed, said):
    assert unsettled(answers(**changed), 1) == [said]


def test_a_transaction_that_somebody_has_open_is_no_trouble():
    assert unsettled(answers(**open_transaction("Ongoing")), 1) == []
