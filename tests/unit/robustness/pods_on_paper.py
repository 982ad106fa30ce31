"""Pods as the API's JSON has them, and a cluster of them that answers as `Kubernetes` does: controllers bring back what
was deleted, at once or when the test says so."""

import copy
import itertools

from oncelog_robustness.chaos.pods.state import Said, pod_from

NUMBERS = itertools.count(1)


def pod(role, name, *, machine="m1", restarts=0, ready=True, ended=None, **more):
    """`ended` is how its container ended before, as (reason, exit code)."""
    number = next(NUMBERS)
    last = {"terminated": {"reason": ended[0], "exitCode": ended[1]}} if ended else {}
    metadata = {
        "name": name,
        "uid": f"uid-{number}",
        "labels": {
            "app.kubernetes.io/instance": "log",
            "app.kubernetes.io/component": role,
        },
        "creationTimestamp": f"2026-01-01T00:00:{number % 60:02d}Z",
    }
    status = {
        "phase": "Running",
        "podIP": f"10.0.0.{number}",
        "hostIP": "192.0.2.1",
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        "containerStatuses": [
            {
                "name": role,
                "restartCount": restarts,
                "ready": ready,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "lastState": last,
            }
        ],
    }
    spec = {
        "nodeName": machine,
        "shareProcessNamespace": True,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": role, "image": f"oncelog/{role}:0.1.0"}],
    }
    return {"metadata": metadata, "spec": spec | more.pop("spec", {}), "status": status | more}


class Paper:
    """As much of `Kubernetes` as the injector and machines use."""

    namespace, release, is_inside = "prod", "log", True

    def __init__(self, *contents, budget=None):
        self.contents = list(contents)
        self.brings_back = True
        self.cordoned = set()
        self.calls = []
        self.budget = budget
        """How many evictions are refused before one is allowed."""

    def pods(self):
        return [pod_from(one) for one in self.contents]

    def delete(self, pod, grace_s=None):
        self.calls.append(("delete", pod.name, grace_s))
        self._replace(pod)

    def evict(self, pod):
        if self.budget:
            self.budget -= 1
            return False
        self.calls.append(("evict", pod.name))
        self._replace(pod)
        return True

    def _replace(self, gone):
        for content in list(self.contents):
            if content["metadata"]["uid"] == gone.uid:
                self.contents.remove(content)
                if self.brings_back:
                    successor = copy.deepcopy(content)
                    successor["metadata"]["uid"] = f"uid-{next(NUMBERS)}"
                    successor["status"]["containerStatuses"][0]["restartCount"] = 0
                    self.contents.append(successor)

    def execute(self, pod, container, *command, timeout_s=0):
        self.calls.append(("execute", pod.name, container, command[-1]))
        if "KILL" in command[-1]:
            self.restart(pod.name, "Error", 137)
        return Said("", 0)

    def restart(self, name, reason, code):
        for content in self.contents:
            if content["metadata"]["name"] == name:
                status = content["status"]["containerStatuses"][0]
                status["restartCount"] += 1
                status["lastState"] = {"terminated": {"reason": reason, "exitCode": code}}

    def add_container(self, pod, patch):
        self.calls.append(("add", pod.name))
        for content in self.contents:
            if content["metadata"]["uid"] == pod.uid:
                (container,) = patch["spec"]["ephemeralContainers"]
                state = {"name": container["name"], "state": {"running": {}}}
                content["status"]["ephemeralContainerStatuses"] = [state]

    def last_words(self, pod, container, lines):
        return "it was too much\n"

    def is_cordoned(self, machine):
        return machine in self.cordoned

    def cordon(self, machine, *, is_on):
        self.calls.append(("cordon" if is_on else "uncordon", machine))
        (self.cordoned.add if is_on else self.cordoned.discard)(machine)
