"""A probe, made before the run begins: can a pod be given a container that may change its network?"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.pods.state import Pod

if TYPE_CHECKING:
    from oncelog_robustness.chaos.pods.api import Kubernetes

START_S: Final = 60.0
LOOK_S: Final = 0.5


class HelperProbe:
    def __init__(
        self, kubernetes: "Kubernetes", pod: Pod, helper: str, patch: Mapping[str, Any]
    ) -> None:
        self._kubernetes = kubernetes
        self._pod = pod
        self._helper = helper
        self._patch = patch

    def fails(self, script: str) -> str:
        """Run the script in the helper container, which is added to the pod first. Return why that fails, or
        "" when it works."""
        try:
            if not self._is_there():
                self._kubernetes.add_container(self._pod, self._patch)
                self._await_it()
            said = self._kubernetes.execute(self._pod, self._helper, "sh", "-c", script)
        except OncelogError as error:
            return str(error)
        last = (said.text.strip().splitlines() or [f"exit code {said.code}"])[-1]
        return last if said.code else ""

    def _is_there(self) -> bool:
        pods = self._kubernetes.pods()
        return any(one.uid == self._pod.uid and self._helper in one.helpers for one in pods)

    def _await_it(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._is_there():
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"the container {self._helper} in {self._pod.name} does not start within {START_S:.0f} s"
                )
            time.sleep(LOOK_S)
