"""Planting a bug: the source of production modules is changed while they are imported.

    install("two-decisions-for-one-batch")      # before anything of oncelog is imported

The files stay as they are, and no compiled copy of the changed source is kept. So other processes never see the bug.
"""

import difflib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

from oncelog_robustness.planted.bug import Bug, Edit
from oncelog_robustness.planted.catalog import BUGS


class CannotPlant(Exception):
    """The bug cannot be planted: there is no such bug, it does not fit the source, or its
    module is imported already."""


def bug_named(name: str) -> Bug:
    """Return the bug of this name. Raises CannotPlant, which names the nearest bug, or says how to list them all."""
    for bug in BUGS:
        if bug.name == name:
            return bug
    near = difflib.get_close_matches(name, [bug.name for bug in BUGS], n=1)
    hint = f"did you mean {near[0]}?" if near else "python -m oncelog_robustness.planted lists them"
    raise CannotPlant(f"there is no planted bug {name!r}; {hint}")


def install(name: str) -> Bug:
    """Plant the bug `name`: modules that it changes are imported with it from now on. Raises CannotPlant."""
    bug = bug_named(name)
    late = [edit.module for edit in bug.edits if edit.module in sys.modules]
    if late:
        raise CannotPlant(f"{', '.join(late)} is imported already; plant {name} before that")
    sys.meta_path.insert(0, _PlantingFinder(bug.edits))
    return bug


def planted(source: str, edits: Iterable[Edit]) -> str:
    """Return `source` with these edits. Raises CannotPlant for an edit that does not fit."""
    for edit in edits:
        found = source.count(edit.old)
        if found != 1:
            raise CannotPlant(
                f"the text to be replaced stands {found} times in {edit.module}, not once:\n{edit.old}"
            )
        source = source.replace(edit.old, edit.new)
    return source


class _PlantingLoader(SourceFileLoader):
    def __init__(self, module: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(module, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        """Compile the module from its changed source. A compiled copy on disk is not used, because it has
        another bug or none."""
        source = planted(_source(self, fullname), self._edits)
        return self.source_to_code(source.encode(), self.path)


class _PlantingFinder(MetaPathFinder):
    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        edits = [edit for edit in self._edits if edit.module == fullname]
        if not edits:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.origin is not None:
                spec.loader = _PlantingLoader(fullname, spec.origin, edits)
                return spec
        return None


def source_of(module: str) -> str:
    """Return the source of a module without importing it; only its packages are imported. Raises CannotPlant."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.has_location:
        raise CannotPlant(f"there is no module {module}")
    # The module's own loader is not used: under pytest that is pytest's, because oncelog is also a plugin of it.
    return _source(SourceFileLoader(module, spec.origin), module)


def _source(loader: SourceFileLoader, module: str) -> str:
    return importlib.util.decode_source(loader.get_data(loader.get_filename(module)))
