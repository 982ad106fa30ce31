"""Runs `oncelog nodes evacuate` and `balance`: step by step, each step by a request to the gateway.

The gateway stores nothing between two steps, and plans each step anew. So the command may be interrupted and run again,
from anywhere. A restart of the gateway or of the controller does not disturb it.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.cluster_answers import MoveStep, NodeStatus, ReassignmentPage
from oncelog_server.cli.options import Output
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import (
    listed,
    of_partition,
    say,
    show_json,
    show_rows,
    warn,
)

if TYPE_CHECKING:
    from rich.progress import Progress

POLL_S: Final = 0.2
LINE_INTERVAL_S: Final = 5.0
"""Seconds between two lines of progress where there is no terminal."""
RETRY_TIMEOUT_S: Final = 60.0
"""Seconds for which a gateway or a controller may not answer in between: one that is restarted is back by then."""
SHOWN_MAX: Final = 50

AnsweredT = TypeVar("AnsweredT")


def selected(
    rest: "Rest",
    node_ids: Sequence[int] | None,
    role: str | None,
    from_id: int | None,
    roles: Sequence[str],
    output: Output | None,
) -> list[int]:
    """Return the ids of the nodes to work on: those that were named, or with --role (one of `roles`) the nodes of that
    role from `from_id` on. Of the latter, nodes whose id the controller chose are left out: it forgets them by itself.
    If no node is left, a message says so.
    """
    if bool(node_ids) == (role is not None):
        raise typer.BadParameter("name node ids, or give --role and --from-id")
    if node_ids:
        if from_id is not None:
            raise typer.BadParameter("--from-id goes with --role, not with node ids")
        return list(dict.fromkeys(node_ids))
    if role not in roles:
        raise typer.BadParameter(f"--role {role!r} is not one of {', '.join(roles)}")
    if from_id is None:
        raise typer.BadParameter("--role needs --from-id: all nodes of a role is never meant")
    # One with a given id is no successor of the last named one, and the cluster forgets it by itself.
    nodes: list[NodeStatus] = rest.get("/v1/nodes", {"limit": 10_000})["nodes"]
    named = [one for one in nodes if role in one["roles"] and not one.get("given")]
    chosen = [one["node_id"] for one in named if one["node_id"] >= from_id]
    if not chosen:
        _say(f"no {role} node has an id of {from_id} or more; nothing to do", output)
    return sorted(chosen)


def await_fenced(rest: "Rest", node_ids: Sequence[int], timeout_s: float) -> None:
    """Wait until none of the nodes runs. Raises OncelogError after `timeout_s`. With 0 it does not wait: then the
    gateway refuses to remove a node that runs.
    """
    deadline = time.monotonic() + timeout_s
    while timeout_s:
        nodes: list[NodeStatus] = rest.get("/v1/nodes", {"limit": 10_000})["nodes"]
        running = [
            one["node_id"] for one in nodes if one["node_id"] in node_ids and not one["fenced"]
        ]
        if not running:
            return
        if time.monotonic() >= deadline:
            names = ", ".join(map(str, running))
            raise OncelogError(
                f"still running after {timeout_s:g} s: {names}; stop their processes first"
            )
        time.sleep(POLL_S)


class MoveCommand:
    """One run of `oncelog nodes evacuate` or `balance`, from its first step to its last, with its output."""

    def __init__(
        self, rest: "Rest", verb: str, body: Mapping[str, object], title: str, output: Output | None
    ) -> None:
        self._rest = rest
        self._path = f"/v1/storage/{verb}"
        self._body = body
        self._title = title
        self._output = output
        self._moved = self._copied = 0
        self._shown_details: set[str] = set()

    def run(self, in_motion_max: int, timeout_s: float, *, dry_run: bool, wait: bool) -> None:
        body = {**self._body, "in_motion_max": in_motion_max}
        if dry_run:
            self._show_plan(self._rest.post(self._path, {**body, "dry_run": True}))
            return
        began = time.monotonic()
        step = self._step(body)
        total = step["left_count"] + self._reordered(step)
        if wait:
            with _Bar(self._title, total) as bar:
                self._finish(body, step, in_motion_max, began + timeout_s, timeout_s, bar)
        self._show_end(0 if wait else step["left_count"], time.monotonic() - began)

    def _step(self, body: Mapping[str, object]) -> MoveStep:
        step: MoveStep = self._rest.post(self._path, {**body, "dry_run": False})
        self._moved += len(step["moves"])
        self._copied += sum(one["copy_count"] for one in step["moves"])
        for failure in step["failures"]:
            if failure["detail"] not in self._shown_details:
                self._shown_details.add(failure["detail"])
                _warn(failure["detail"])
        return step

    def _reordered(self, step: MoveStep) -> int:
        """Return how many of a step's moves only reorder replicas. They are done when the request returns, so the
        step's `left_count` does not have them.
        """
        return sum(not one["copy_count"] for one in step["moves"])

    def _finish(
        self,
        body: Mapping[str, object],
        step: MoveStep,
        in_motion_max: int,
        deadline: float,
        timeout_s: float,
        bar: "_Bar",
    ) -> None:
        bar.show(step["left_count"])
        while step["left_count"]:
            under_way = self._retried(self._under_way, deadline)
            bar.show(max(step["left_count"] - step["under_way_count"] + under_way, 0))
            if under_way <= in_motion_max // 2:
                step = self._retried(lambda: self._step(body), deadline)
                bar.show(step["left_count"])
            if step["left_count"] and time.monotonic() >= deadline:
                raise OncelogError(self._late(step["left_count"], timeout_s))
            time.sleep(POLL_S)

    def _under_way(self) -> int:
        page: ReassignmentPage = self._rest.get("/v1/reassignments", {"limit": 1})
        return page["total"]

    def _retried(self, ask: Callable[[], AnsweredT], deadline: float) -> AnsweredT:
        """Call `ask` and return its result. If it fails it is called again for a minute, but not beyond `deadline` (by
        `time.monotonic`): the gateway or a controller may be restarting.
        """
        give_up_at = min(deadline, time.monotonic() + RETRY_TIMEOUT_S)
        while True:
            try:
                return ask()
            except OncelogError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(POLL_S)

    def _late(self, left: int, timeout_s: float) -> str:
        return (
            f"{self._title}: {counted(left, 'partition')} still to be moved after {timeout_s:g} s. What is under way "
            "goes on (`oncelog partitions reassignments` shows it); run the command again for the rest"
        )

    def _show_plan(self, step: MoveStep) -> None:
        if self._output == Output.JSON:
            show_json(step)
            return
        show_rows(
            {
                "partition": of_partition,
                "replicas": lambda one: listed(one["replicas"]),
                "becomes": lambda one: listed(one["target_replicas"]),
            },
            step["moves"][:SHOWN_MAX],
            empty="Nothing is to be moved",
        )
        if step["moves"]:
            more = step["move_count"] - SHOWN_MAX
            shown = f" (and {more} more)" if more > 0 else ""
            _say(
                f"{counted(step['move_count'], 'partition')} would change{shown}, "
                f"{counted(step['copy_count'], 'replica')} would be copied",
                self._output,
            )

    def _show_end(self, left: int, seconds: float) -> None:
        if self._output == Output.JSON:
            shown = {"partitions": self._moved, "replicas_copied": self._copied, "left": left}
            show_json({**shown, "seconds": round(seconds, 1)})
        elif left:
            _say(
                f"{self._title}: {counted(self._moved, 'partition')} begun, {left} not done yet; "
                "run the command again for the rest",
                self._output,
            )
        elif self._moved:
            _say(
                f"{self._title}: done in {seconds:.1f} s, {counted(self._moved, 'partition')} changed, "
                f"{counted(self._copied, 'replica')} copied",
                self._output,
            )
        else:
            _say(f"{self._title}: nothing was to be moved", self._output)


def _say(text: str, output: Output | None) -> None:
    """Print a text for people: on stderr where a script reads JSON from stdout."""
    (_warn if output == Output.JSON else say)(text)


def _warn(text: str) -> None:
    warn(text)


class _Bar:
    """Shows on stderr how many partitions have been moved: a bar on a terminal, else a line every few seconds."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._shown_at = float("-inf")
        self._shown = ""
        self._bar: Progress | None = None

    def __enter__(self) -> "_Bar":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.progress import TimeElapsedColumn as Elapsed

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed()
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self._title, total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, left: int) -> None:
        self._total = max(self._total, left)
        done = self._total - left
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=self._total)
            return
        if not self._total:
            return
        text = f"{self._title}: {done} of {counted(self._total, 'partition')}"
        now = time.monotonic()
        if text != self._shown and (now >= self._shown_at + LINE_INTERVAL_S or left == 0):
            self._shown, self._shown_at = text, now
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
