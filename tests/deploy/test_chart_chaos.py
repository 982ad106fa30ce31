"""Chaos in the chart: off by default, and its Job may do what its faults need and nothing more."""

from oncelog_robustness.chaos.__main__ import app
from oncelog_robustness.chaos.pods.needs import IN_A_NAMESPACE, OF_NODES, WITH_MACHINES, Verb
from oncelog_robustness.chaos.pods.target import STRUCK
from tests.deploy.conftest import component, of_kind, pod_of, rendered, the, with_pods
from typer.main import get_command


def verbs_of(role):
    return {
        Verb(group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def job_of(objects):
    return the(objects, "Job", of="chaos")


def test_nobody_may_break_anything_by_default():
    objects = rendered("default")
    assert of_kind(objects, "ClusterRole", "ClusterRoleBinding") == []
    # One Job makes the Secrets of the release; nobody else may anything.
    assert component(the(objects, "RoleBinding")) == "jobs"
    allowed = {Verb("", "secrets", verb) for verb in ("create", "get", "patch")}
    assert verbs_of(the(objects, "Role")) == allowed
    assert not any(pod_of(one)[1].get("shareProcessNamespace") for one in with_pods(objects))
    assert "chaos" not in {component(one) for one in objects}


def test_the_role_has_exactly_the_verbs_that_faults_of_pods_need():
    objects = rendered("chaos")
    assert verbs_of(the(objects, "Role", of="chaos")) == IN_A_NAMESPACE
    assert of_kind(objects, "ClusterRole", "ClusterRoleBinding") == []


def test_faults_of_machines_need_evictions_and_a_cluster_role():
    objects = rendered("chaos-machines")
    assert verbs_of(the(objects, "Role", of="chaos")) == WITH_MACHINES
    assert len(WITH_MACHINES - IN_A_NAMESPACE) == 1
    cluster_role = the(objects, "ClusterRole")
    assert verbs_of(cluster_role) == OF_NODES
    # Two releases of one name in two namespaces have two of them.
    assert cluster_role["metadata"]["name"].startswith("prod-")


def test_only_the_jobs_account_has_its_roles():
    objects = rendered("chaos-machines")
    job = job_of(objects)
    account = pod_of(job)[1]["serviceAccountName"]
    its = [one for one in objects if component(one) == "chaos"]
    roles = {(one["kind"], one["metadata"]["name"]) for one in of_kind(its, "Role", "ClusterRole")}
    bindings = of_kind(its, "RoleBinding", "ClusterRoleBinding")
    assert {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings} == roles
    for one in bindings:
        assert one["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "prod"}]
    others = [one for one in with_pods(objects) if component(one) != "chaos"]
    assert account not in {pod_of(one)[1].get("serviceAccountName") for one in others}


def test_pods_that_are_struck_share_their_processes():
    for thing in with_pods(rendered("chaos")):
        shares = pod_of(thing)[1].get("shareProcessNamespace", False)
        assert shares is (component(thing) in STRUCK), thing["metadata"]["name"]


def test_the_job_runs_a_command_that_there_is():
    (container,) = pod_of(job_of(rendered("chaos")))[1]["containers"]
    assert container["command"] == ["oncelog", "chaos", "--kubernetes"]
    command = get_command(app)
    context = command.make_context("chaos", [*container["command"][2:], *container["args"]])
    given = context.params
    assert given["namespace"] == "prod"
    assert given["release"] == "log"
    assert (given["minutes"], given["seed"], given["keep"]) == ("3", "7", "60")
    assert given["pace"] == "1"
    assert str(given["folder"]).startswith("/tmp/")


def test_each_upgrade_is_a_run_of_its_own():
    assert job_of(rendered("chaos"))["metadata"]["name"] == "log-oncelog-chaos-1"
    assert job_of(rendered("chaos"))["spec"]["backoffLimit"] == 0
