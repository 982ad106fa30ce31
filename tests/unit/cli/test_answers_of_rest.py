"""The types of REST's answers in the commands have the fields of the gateway's models."""

import importlib
import pkgutil
import types
import typing
from enum import StrEnum

import pytest

import oncelog_gateway
from oncelog_gateway.resources import Resource
from oncelog_server.cli import cluster_answers, transaction_answers

ANSWERS = {
    name: kind
    for module in (cluster_answers, transaction_answers)
    for name, kind in vars(module).items()
    if typing.is_typeddict(kind) and kind.__module__ == module.__name__
}
OWN = {"InPartition"}
"""Types that are a part of several models."""


def models():
    for module in pkgutil.walk_packages(oncelog_gateway.__path__, "oncelog_gateway."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, left = {}, [Resource]
    while left:
        kind = left.pop()
        found[kind.__name__] = kind
        left += kind.__subclasses__()
    return found


MODELS = models()


def as_json(kind):
    """The type as JSON has it, in one spelling for models and TypedDicts."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return as_json(inner[0])
    if origin is typing.Literal:
        return frozenset(type(one).__name__ for one in inner)
    if origin in (typing.Union, types.UnionType):
        return frozenset().union(*map(as_json, inner))
    if origin in (list, dict):
        return frozenset([(origin.__name__, *map(as_json, inner))])
    if kind in (typing.Any, object):
        return frozenset(["anything"])
    if issubclass(kind, StrEnum):
        return frozenset(["str"])
    return frozenset([kind.__name__])


def test_of_every_answer_there_is_a_model():
    assert len(ANSWERS) > 40
    assert set(ANSWERS) - set(MODELS) == OWN


def fields_of_model(name):
    hints = typing.get_type_hints(MODELS[name])
    return {field: as_json(hints[field]) for field in MODELS[name].model_fields}


@pytest.mark.parametrize("name", sorted(set(ANSWERS) - OWN))
def test_answer_has_the_fields_of_its_model(name):
    answer = typing.get_type_hints(ANSWERS[name])
    assert {field: as_json(one) for field, one in answer.items()} == fields_of_model(name)


@pytest.mark.parametrize(
    ("one", "other"), [(str, str | None), (list[int], list[str]), (int, bool), (object, str)]
)
def test_different_types_are_told_apart(one, other):
    assert as_json(one) != as_json(other)
