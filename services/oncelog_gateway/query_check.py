"""Refuses requests with a query parameter that their path does not know. A misspelt parameter would otherwise be
ignored, and the answer would be to another question.
"""

from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute


async def only_known_parameters(request: Request) -> None:
    """Raise RequestValidationError if a REST request has an unknown query parameter. Health probes and console pages
    may have any.
    """
    if not request.url.path.startswith("/v1/") or not request.query_params:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute), route
    known = _names(route.dependant)
    errors = [
        {"loc": ("query", name), "msg": _message(name, known)}
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    if errors:
        raise RequestValidationError(errors)


def _names(dependant: Dependant) -> list[str]:
    """Return the names of all query parameters that a route takes, also by its FastAPI dependencies."""
    own = [field.alias for field in dependant.query_params]
    return own + [name for one in dependant.dependencies for name in _names(one)]


def _message(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"unknown parameter; did you mean {near[0]}?"
    return f"unknown parameter; known are {', '.join(known)}" if known else "this takes none"
