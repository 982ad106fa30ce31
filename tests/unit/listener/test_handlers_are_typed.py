"""A handler says in its signature whose call it answers: mypy compares the rest (ADR 0055)."""

import inspect
from pathlib import Path

import pytest

import oncelog_listener
from oncelog_listener.routes import ROUTES

LISTENER = Path(oncelog_listener.__path__[0])


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.api.name)
def test_a_handler_has_the_call_and_answer_of_its_api(route):
    signature = inspect.signature(route.handle)
    (call,) = signature.parameters.values()
    assert call.annotation == f"{route.api.name}Call"
    assert signature.return_annotation.removesuffix(" | None") == f"kafka.{route.api.name}Response"


def test_no_handler_takes_or_returns_any():
    paths = sorted((LISTENER / "handlers").glob("*.py"))
    assert len(paths) > 20
    assert not [path.name for path in paths if "import Any" in path.read_text()]
    assert not [path.name for path in paths if "Any," in path.read_text()]
