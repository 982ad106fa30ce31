"""Judging a history that lies in a file, part by part: `python -m oncelog_robustness.judging HISTORY.jsonl`.

A history of millions of operations is more than the memory of a machine holds as objects. But most operations do
not concern each other: they belong together only if they share a client, a topic, a group or a transactional id.
So the file is read twice:

1. Each line is searched for names, without being parsed. Lines that share a name come into one part.
2. The parts, several small ones at once, are read as histories and judged by every checker, by one process for each
   processor.

Each checker sees every operation that can matter to its rule, so its verdicts together equal its verdict on
the whole. A history that cannot be taken apart, such as one topic with all operations, is judged as one
part, and needs its memory.
"""

import argparse
import gc
import json
import multiprocessing
import os
import re
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Generic, TypeVar

from oncelog.errors import OncelogError
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.findings import PROOFS_MAX
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.history import Fault, FinalRead, History, WorkloadFact
from oncelog_robustness.observations import Observations

PART_OPERATIONS: Final = 100_000
"""The most operations of small parts that are judged together. A part that cannot be taken apart may have more."""
_NAMES: Final = re.compile(
    rb'(?:"(?:client|topic|group|transactional_id)": |\[(?="[^"\\]+", [\d\[]))("[^"\\]+")'
)
"""The pattern of the names in a line: values of the fields that name something, and the first string of a send, a
read, a position or a group's offset."""
_TOPIC: Final = re.compile(rb'"topic": ("[^"\\]+")')
_BEGIN: Final = b'{"operation": "'
_FAULT: Final = _BEGIN + Fault.__name__.encode()
_FACT: Final = _BEGIN + WorkloadFact.__name__.encode()
_FINAL_READ: Final = _BEGIN + FinalRead.__name__.encode()

LookT = TypeVar("LookT")
Look = Callable[[History, Sequence[Verdict]], LookT]
"""A function that is called with a part and its verdicts, in the process that judges the part. It must be defined at
the top of a module, so that other processes can find it by name."""


class Parts:
    """The parts of a history's file: lines that share a client, a topic, a group or a transactional id, and so must
    be judged together."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the file and find its parts. Raises OncelogError for a file that does not begin as a history does."""
        self._slots: dict[bytes, int] = {}
        """The slot (an index into `_lines`) of each name. `_parents` joins the slots of one part, as union-find
        does."""
        self._parents: list[int] = []
        self._known: dict[frozenset[bytes], int] = {}
        self._lines: list[array[int]] = []
        """The positions in the file of each slot's lines."""
        self._faults: array[int] = array("q")
        self.facts = _facts(file.readline())
        self.count = 0
        at = file.tell()
        for line in file:
            self._take(line, at)
            at += len(line)
            self.count += 1

    def _take(self, line: bytes, at: int) -> None:
        if line.startswith(_FAULT):
            # A fault matters to every part.
            self._faults.append(at)
            return
        if line.startswith(_FINAL_READ):
            # One client reads the partitions of everybody at the end.
            names = frozenset(_TOPIC.findall(line, 0, line.find(b"[")))
        elif line.startswith(_FACT):
            names = frozenset(_NAMES.findall(line)) | _names_in_fact(line)
        else:
            names = frozenset(_NAMES.findall(line))
        slot = self._known.get(names)
        if slot is None:
            slot = self._known[names] = self._join(sorted(names), line)
        self._lines[slot].append(at)

    def _join(self, names: Sequence[bytes], line: bytes) -> int:
        """Put all lines with any of these names into one part, and return a slot of that part. Raises OncelogError
        for a line without a name: `History.lines` writes none."""
        if not names or not line.startswith(_BEGIN):
            raise OncelogError(f"line {self.count + 2} is no operation of a history: {line[:80]!r}")
        slots = [self._slot(name) for name in names]
        first = self._root(slots[0])
        for other in slots[1:]:
            self._parents[self._root(other)] = first
        return slots[0]

    def _slot(self, name: bytes) -> int:
        if name not in self._slots:
            self._slots[name] = len(self._parents)
            self._parents.append(len(self._parents))
            self._lines.append(array("q"))
        return self._slots[name]

    def _root(self, slot: int) -> int:
        while self._parents[slot] != slot:
            self._parents[slot] = self._parents[self._parents[slot]]
            slot = self._parents[slot]
        return slot

    def packed(self, most: int = PART_OPERATIONS) -> list["array[int]"]:
        """Return the positions of the lines to be judged together, in groups of about `most` lines; the largest
        part comes first. Faults are in every group."""
        whole: dict[int, array[int]] = {}
        for slot, lines in enumerate(self._lines):
            whole.setdefault(self._root(slot), array("q")).extend(lines)
            self._lines[slot] = array("q")
        packed: list[array[int]] = []
        for part in sorted(whole.values(), key=len, reverse=True):
            if packed and len(packed[-1]) + len(part) <= most:
                packed[-1].extend(part)
            else:
                packed.append(part)
        return [array("q", sorted((*part, *self._faults))) for part in packed]


def _facts(line: bytes) -> dict[str, str]:
    try:
        content = json.loads(line)
        return {str(name): str(fact) for name, fact in content["facts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OncelogError(
            f"the first line is no facts of a history, but {line[:80]!r}: give the history.jsonl of a run"
        ) from error


def _names_in_fact(line: bytes) -> set[bytes]:
    """Return every string in a fact's JSON, because each may be the name of a client, topic, group or transactional
    id."""
    found: set[bytes] = set()

    def look(one: object) -> None:
        if isinstance(one, str):
            found.add(json.dumps(one).encode())
        elif isinstance(one, dict):
            for inner in one.values():
                look(inner)
        elif isinstance(one, list):
            for inner in one:
                look(inner)

    look(json.loads(json.loads(line)["facts"]))
    return found


@dataclass(frozen=True, slots=True)
class Judged(Generic[LookT]):
    facts: dict[str, str]
    verdicts: list[Verdict]
    looks: list[LookT]
    """The results of the function `look`, one for each part, the largest part first."""


def judge_file(path: Path, most: int = PART_OPERATIONS, jobs: int = 0) -> list[Verdict]:
    """Return the verdicts of every checker on the history in this file. About `most` operations are judged together, in
    each of `jobs` processes; 0 means one for each processor. Raises OncelogError or ValueError for a file that is no
    history."""
    return judge_parts(path, _see_nothing, most, jobs).verdicts


def _see_nothing(history: History, verdicts: Sequence[Verdict]) -> None:
    return None


def judge_parts(
    path: Path, look: Look[LookT], most: int = PART_OPERATIONS, jobs: int = 0
) -> Judged[LookT]:
    """Judge the file as `judge_file` does, and call `look` on each part. Raises OncelogError, or ValueError that names
    the line."""
    gc.disable()
    with path.open("rb") as file:
        parts = Parts(file)
    packed = parts.packed(most)
    facts = parts.facts
    tasks = [_Task(path, facts, part, look) for part in packed]
    del parts, packed
    context = multiprocessing.get_context("fork")
    # A process that has judged one part keeps its memory: the next part has a process of its own.
    with context.Pool(jobs or os.cpu_count(), maxtasksperchild=1) as pool:
        found = list(pool.imap(_judge_part, tasks, chunksize=1))
    verdicts = merged([one for one, _ in found])
    return Judged(facts, verdicts, [seen for _, seen in found])


@dataclass(frozen=True, slots=True)
class _Task(Generic[LookT]):
    path: Path
    facts: dict[str, str]
    part: "array[int]"
    look: Look[LookT]


def _judge_part(task: _Task[LookT]) -> tuple[list[Verdict], LookT]:
    # Operations hold no cycles, and looking for them takes a third of the time.
    gc.disable()
    with task.path.open("rb") as file:
        lines = _Lines(file, task.part)
        try:
            # Sealed here, so that the checkers and the look share what is made of it once.
            history = History.from_lines(lines).sealed()
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {lines.number()}: {error}") from error
    history.facts = task.facts
    verdicts = judge(history, Observations(is_healed=True))
    return verdicts, task.look(history, verdicts)


class _Lines:
    """The lines of a history's file that make up one part, read when they are iterated. A part is judged alone."""

    def __init__(self, file: BinaryIO, part: "array[int]") -> None:
        self._file = file
        self._part = part
        self._at = 0

    def __iter__(self) -> Iterator[str]:
        for at in self._part:
            self._at = at
            self._file.seek(at)
            yield self._file.readline().decode()

    def number(self) -> int:
        """Return the line number, in the file, of the line that was read last. It counts the lines up to that one."""
        self._file.seek(0)
        number = 0
        while self._file.tell() <= self._at:
            self._file.readline()
            number += 1
        return number


def merged(found: Sequence[Sequence[Verdict]]) -> list[Verdict]:
    """Return the verdicts on the whole history, in the order of `ALL`, from the verdicts on its parts."""
    nothing = judge(History(), Observations())
    return [
        _merged(none, [verdicts[number] for verdicts in found])
        for number, none in enumerate(nothing)
    ]


def _merged(nothing: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Return one verdict of a checker from its verdicts on all parts. One BROKEN makes it BROKEN, else one UNKNOWN
    makes it UNKNOWN. `nothing` is its verdict on an empty history; parts with the same verdict do not count."""
    judged = sum(one.judged for one in verdicts)
    telling = [one for one in verdicts if one != nothing]
    for answer in (Answer.BROKEN, Answer.UNKNOWN):
        proof = [sentence for one in telling if one.answer is answer for sentence in one.proof]
        if proof:
            return Verdict(nothing.checker, answer, judged, tuple(proof[: PROOFS_MAX + 1]))
    return Verdict(nothing.checker, Answer.OK, judged) if telling else nothing


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m oncelog_robustness.judging")
    parser.add_argument("history", type=Path, metavar="HISTORY.jsonl")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: one a processor)")
    given = parser.parse_args(arguments)
    try:
        verdicts = judge_file(given.history, jobs=given.jobs)
    except (OncelogError, OSError, ValueError) as error:
        print(f"cannot judge {given.history}: {error}", file=sys.stderr)
        return 2
    for one in verdicts:
        print(f"{one.checker:30} {one.answer:8} {one.judged:>12,}")
        for sentence in one.proof if one.answer is Answer.BROKEN else ():
            print(f"    {sentence}")
    return 1 if any(one.answer is Answer.BROKEN for one in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
