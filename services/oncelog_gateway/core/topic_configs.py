"""Topic configs in JSON: numbers are numbers and lists are lists. The JSON schema has every key with its bounds.

Kafka writes all values as text. With types, a value that could never be right is refused before the controller is
asked, and the error names the key and the bound.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from oncelog.config_key import ConfigKey, known_key
from oncelog.errors import KafkaError
from oncelog.topic_config import TOPIC_CONFIGS

ConfigJson = int | float | bool | str | list[str]
"""A config's value with its type in JSON."""
OpenApi: TypeAlias = dict[str, Any]
"""A part of an OpenAPI document. JSON Schema nests freely, and FastAPI takes and makes it as this type."""
_TYPES_OF_KIND: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "long": (int,),
    "double": (int, float),
    "boolean": (bool,),
    "string": (str,),
    "list": (list,),
}
_JSON_TYPE_OF_KIND: Final = {
    "int": "an integer",
    "long": "an integer",
    "double": "a number",
    "boolean": "true or false",
    "string": "a string",
    "list": "a list of strings",
}


JSON_INTEGER_MAX: Final = 2**53 - 1
"""The largest integer that is a JSON number here. Above it readers that only know floats, and most browsers, change
the number (RFC 7493).
"""


def configs_as_text(given: object) -> dict[str, str]:
    """Return configs of a request as text, as Kafka writes them. Raises ValueError that names the key and its allowed
    values.
    """
    if not isinstance(given, dict):
        raise ValueError("an object of topic configurations is wanted")
    return {name: _as_text(name, value) for name, value in given.items()}


def changes_as_text(given: object) -> dict[str, str | None]:
    """Return changes of configs as text, as Kafka writes them. None stays None: it sets the default again. Raises
    ValueError.
    """
    if not isinstance(given, dict):
        raise ValueError("an object of topic configurations is wanted")
    return {
        name: None if value is None and name in TOPIC_CONFIGS else _as_text(name, value)
        for name, value in given.items()
    }


def as_json(name: str, text: str) -> ConfigJson:
    """Return the value of a config as JSON with its type, such as a number. It is the inverse of `configs_as_text`."""
    key = TOPIC_CONFIGS.get(name)
    match key.kind if key else "string":
        case "int" | "long":
            return int(text)
        case "double":
            return float(text)
        case "boolean":
            return text.lower() == "true"
        case "list":
            return [one.strip() for one in text.split(",") if one.strip()]
    return text


def configs_as_json(configs: Mapping[str, str]) -> dict[str, ConfigJson]:
    return {name: as_json(name, configs[name]) for name in sorted(configs)}


def _as_text(name: str, value: object) -> str:
    try:
        key = known_key(TOPIC_CONFIGS, "topic", name)
    except KafkaError as error:
        raise ValueError(error.message) from None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) > JSON_INTEGER_MAX:
        raise ValueError(
            f"{name} is {value}; JSON keeps whole numbers up to {JSON_INTEGER_MAX}: leave it out for the default"
        )
    if type(value) not in _TYPES_OF_KIND[key.kind]:
        raise ValueError(f"{name} must be {_JSON_TYPE_OF_KIND[key.kind]}, not {value!r}")
    if isinstance(value, list) and any(
        not isinstance(one, str) or not one or (key.choices and one not in key.choices)
        for one in value
    ):
        named = ", ".join(key.choices) or "anything"
        raise ValueError(f"{name} is a list of strings that may name {named}, not {value!r}")
    try:
        return key.check(",".join(value) if isinstance(value, list) else str(value))
    except KafkaError as error:
        raise ValueError(error.message) from None


def _schema_of(key: ConfigKey) -> OpenApi:
    only = f"; nothing else is taken: {key.unsupported}" if key.unsupported else ""
    schema: OpenApi = {"description": f"{key.doc}; default {key.default}{only}"}
    if key.unsupported:
        return schema | _only_default(key)
    match key.kind:
        case "int" | "long" if key.choices:
            schema |= {"type": "integer", "enum": [int(choice) for choice in key.choices]}
        case "int" | "long":
            largest = key.maximum or (2**31 - 1 if key.kind == "int" else JSON_INTEGER_MAX)
            schema |= {"type": "integer", "maximum": largest}
            if key.minimum is not None:
                schema["minimum"] = key.minimum
        case "double":
            schema |= {"type": "number", "minimum": 0, "maximum": 1}
        case "boolean":
            schema["type"] = "boolean"
        case "string":
            schema["type"] = "string"
            if key.choices:
                schema["enum"] = list(key.choices)
        case "list":
            items: OpenApi = {"type": "string", "minLength": 1}
            if key.choices:
                items["enum"] = list(key.choices)
            schema |= {"type": "array", "items": items, "minItems": 0 if key.may_be_empty else 1}
    return schema


def _only_default(key: ConfigKey) -> OpenApi:
    match key.kind:
        case "int" | "long":
            return {"type": "integer", "enum": [int(key.default)]}
        case "boolean":
            return {"type": "boolean", "enum": [key.default == "true"]}
        case _:
            return {"type": "array", "items": {"type": "string"}, "maxItems": 0}


CONFIGS_SCHEMA: Final[OpenApi] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {key.name: _schema_of(key) for key in TOPIC_CONFIGS.values()},
}

CHANGES_SCHEMA: Final[OpenApi] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        name: {"anyOf": [schema, {"type": "null"}]}
        for name, schema in CONFIGS_SCHEMA["properties"].items()
    },
}
SHOWN_SCHEMA: Final[OpenApi] = {
    "type": "object",
    "additionalProperties": {
        "type": ["integer", "number", "boolean", "string", "array"],
        "items": {"type": "string"},
    },
}
