"""Docker or podman, driven by the commands that both understand alike."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import OncelogError

CALL_TIMEOUT_S: Final = 120.0
NAMES: Final = ("docker", "podman")
ENGINE: Final = "ENGINE"
"""The environment variable that names the engine, as for `make images`."""


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    text: str
    """The command's stdout, or its stderr when it failed."""


@dataclass(frozen=True, slots=True)
class Engine:
    command: str

    @property
    def is_podman(self) -> bool:
        return os.path.basename(self.command) == "podman"

    def run_command(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Said:
        """Run a command of the engine and return its exit code and output; a failure is returned, not raised.
        Raises OncelogError when it does not end in time."""
        try:
            done = subprocess.run(
                [self.command, *arguments],
                env={**os.environ, **(environment or {})},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
                check=False,
                # A Ctrl-C is for the caller: a half-made container would stay.
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            message = f"{self.command} {arguments[0]} did not end within {timeout_s:.0f} s"
            raise OncelogError(message) from error
        except OSError as error:
            raise OncelogError(f"cannot run {self.command}: {error.strerror}") from error
        return Said(done.returncode, done.stderr if done.returncode else done.stdout)

    def do(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> str:
        """Run a command and return its stdout. Raises OncelogError with the last line of its output when it fails."""
        said = self.run_command(*arguments, environment=environment, timeout_s=timeout_s)
        if said.code:
            last = (said.text.strip().splitlines() or [f"exit code {said.code}"])[-1]
            raise OncelogError(f"{self.command} {arguments[0]}: {last}")
        return said.text.strip()

    def has_image(self, image: str) -> bool:
        return self.run_command("image", "inspect", image).code == 0

    def look(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the result of the engine's `inspect` for each of these containers; one that does not exist is left
        out."""
        said = self.run_command("inspect", "--type", "container", *names)
        if said.code == 0:
            return list(json.loads(said.text))
        return [one for name in names for one in self.look([name])] if len(names) > 1 else []


def find_engine(wanted: str = "") -> Engine:
    """Return docker or podman, whichever is installed and answers first. `wanted`, or the variable ENGINE,
    allows one alone. Raises OncelogError that says how to get one."""
    wanted = wanted or os.environ.get(ENGINE, "")
    found = []
    for name in (wanted,) if wanted else NAMES:
        if shutil.which(name) is None:
            continue
        said = Engine(name).run_command("info")
        if said.code == 0:
            return Engine(name)
        last = (said.text.strip().splitlines() or ["it said nothing"])[-1]
        found.append(f"{name} is installed and does not answer: {last}")
    if wanted and not found:
        raise OncelogError(f"{ENGINE} names {wanted}, which is not installed; there are {NAMES}")
    reasons = "; ".join(found) or "no container engine is installed"
    raise OncelogError(
        f"{reasons}. Podman comes with apt, dnf or brew install podman; Docker from "
        "https://docs.docker.com/engine/install/, and its daemon has to run"
    )
