"""The choice of the fault driver (commands, processes, containers or pods) by the options of the command."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.containers.engine import find_engine
from oncelog_robustness.verify.faults import (
    CommandDriver,
    ContainerDriver,
    Driver,
    ProcessDriver,
    Shell,
)

LOG: Final = "faults.log"


@dataclass(frozen=True, slots=True)
class Faults:
    """The options of the command that say which faults to make, and in what."""

    commands: tuple[str, ...] = ()
    heal: str = ""
    pid_files: tuple[str, ...] = ()
    restart: str = ""
    containers: tuple[str, ...] = ()
    pods: str = ""
    namespace: str = ""
    context: str = ""

    def at(self, namespace: str, context: str) -> Self:
        return replace(self, namespace=namespace, context=context)

    @property
    def is_given(self) -> bool:
        return any((self.commands, self.pid_files, self.containers, self.pods))

    def refuse_bad(self) -> None:
        """Raise OncelogError for options of faults that contradict each other."""
        chosen = {
            "--fault": self.commands,
            "--pid-file": self.pid_files,
            "--container": self.containers,
            "--pods": self.pods,
        }
        many = [option for option, value in chosen.items() if value]
        if len(many) > 1:
            raise OncelogError(f"{' and '.join(many)} are ways to break the same brokers: give one")
        if self.heal and not self.commands:
            raise OncelogError("--heal ends what --fault began: give --fault, too")
        if self.restart and not self.pid_files:
            raise OncelogError("--restart starts the broker of a --pid-file: give that, too")
        if (self.namespace or self.context) and not self.pods:
            raise OncelogError("--namespace and --context say where --pods are: give that, too")

    def driver(self, folder: Path) -> Driver | None:
        """Return the driver that makes these faults; None without faults. Raises OncelogError when it cannot be had on
        this machine."""
        shell = Shell(folder / LOG)
        if self.commands:
            return CommandDriver(self.commands, self.heal, shell)
        if self.pid_files:
            return ProcessDriver(self.pid_files, self.restart, shell)
        if self.containers:
            return ContainerDriver(find_engine(), self.containers)
        if not self.pods:
            return None
        try:
            from oncelog_robustness.verify.pods import PodDriver
        except ModuleNotFoundError as error:
            raise OncelogError(
                f"--pods needs {error.name}, which is not installed: pip install 'oncelog[chaos]'"
            ) from error
        return PodDriver.of_label(self.pods, self.namespace, self.context)
