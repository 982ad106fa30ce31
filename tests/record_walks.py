"""Every form of the look at a batch's records (`oncelog.record.walk`), for tests that hold in each."""

import importlib.util
from pathlib import Path

import pytest

from oncelog.record import check, walk

COMPILED = pytest.param(
    walk,
    id="compiled",
    marks=pytest.mark.skipif(not check.IS_WALK_COMPILED, reason="nothing was compiled here"),
)


def from_source():
    """The module as Python runs it, whether it was compiled or not."""
    path = Path(walk.__file__).with_name("walk.py")
    spec = importlib.util.spec_from_file_location("walk_from_source", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMS = [COMPILED, pytest.param(from_source(), id="source"), pytest.param(None, id="without")]


def use(monkeypatch, form):
    """None: the records are read by aiokafka's reader alone."""
    monkeypatch.setattr(check, "IS_WALK_COMPILED", form is not None)
    if form is not None:
        monkeypatch.setattr(check, "walk", form)
