"""The rule for the names of a setting: from its field in a class follow its environment variable, its flag and its key
in a file.

The field `checkpoint_bytes` of a class with the prefix `ONCELOG_STORAGE_` is the variable
`ONCELOG_STORAGE_CHECKPOINT_BYTES`, the flag `--storage-checkpoint-bytes` and the key `checkpoint_bytes` of the table
`[storage]`. A word that stands twice in a row is said once in the flag: ONCELOG_NODE_NODE_ID is `--node-id`.
"""

from collections.abc import Mapping
from typing import Final

from pydantic_settings import BaseSettings

PREFIX: Final = "ONCELOG_"
UP: Final = "up"
"""The table of `oncelog up`, whose variables have no second word."""
TABLES: Final = (
    UP,
    "cluster",
    "process",
    "node",
    "controller",
    "coordinator",
    "gateway",
    "listener",
    "marker_sender",
    "storage",
)
"""The tables of all programs. A process checks the names in its own tables only."""


FORMER: Final[Mapping[str, Mapping[str, str]]] = {
    "coordinator": {"stamp_check_enabled": "origin_check_enabled"}
}
"""Table → former name of a setting → its present name.
The former name is read wherever the present one is (docs/upgrades.md)."""


def former_names(kind: type[BaseSettings], name: str) -> tuple[str, ...]:
    return tuple(old for old, now in FORMER.get(table_of(kind), {}).items() if now == name)


def variable_of(kind: type[BaseSettings], name: str) -> str:
    return f"{kind.model_config.get('env_prefix', '')}{name}".upper()


def flag_of(kind: type[BaseSettings], name: str) -> str:
    words = variable_of(kind, name).removeprefix(PREFIX).lower().split("_")
    said_once = [
        word for word, before in zip(words, [None, *words], strict=False) if word != before
    ]
    return "--" + "-".join(said_once)


def table_of(kind: type[BaseSettings]) -> str:
    prefix = kind.model_config.get("env_prefix", "")
    return prefix.removeprefix(PREFIX).strip("_").lower() or UP
