"""`docs/settings.md`, made from the settings classes: `make docs-settings` writes it, a test holds the page to them."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from oncelog.process.names import table_of, variable_of
from oncelog.process.run import ProcessSettings
from oncelog.rpc.node_settings import NodeSettings
from oncelog_server.settings import (
    SET_BY_CLUSTER,
    SET_BY_UP,
    ClusterSettings,
    EmbeddedSettings,
    kinds_of_roles,
)

KINDS: Final[tuple[type[BaseSettings], ...]] = (
    EmbeddedSettings,
    ClusterSettings,
    ProcessSettings,
    NodeSettings,
    *kinds_of_roles(),
)
_READ_BY: Final = {
    "up": "`oncelog up`; each is also a flag, such as `--port`",
    "cluster": "`oncelog cluster up`; each is also a flag, such as `--port`",
    "process": "every process of a cluster",
    "node": "every process of a cluster",
    "controller": "`python -m oncelog_controller`, `oncelog up`",
    "storage": "`python -m oncelog_storage`, `oncelog up`",
    "coordinator": "`python -m oncelog_coordinator`, `oncelog up`",
    "marker_sender": "`python -m oncelog_marker_sender`, `oncelog up`",
    "listener": "`python -m oncelog_listener`, `oncelog up`",
    "gateway": "`python -m oncelog_gateway`, `oncelog up`",
}
_UNITS: Final = {
    "ms": "ms",
    "bytes": "bytes",
    "port": "port",
    "records": "records",
    "markers": "markers",
    "partitions": "partitions",
    "nodes": "nodes",
    "connections": "connections",
}
_BOUNDS: Final = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_HEAD: Final = """# Settings

This page is made from the settings classes by `make docs-settings`. Do not edit it by hand.

A setting has three names. The setting `flush_policy` of the table `storage` is

| where | how |
| --- | --- |
| in a file | the key `flush_policy` below `[storage]` |
| in the environment | `ONCELOG_STORAGE_FLUSH_POLICY` |
| as a flag of the role's own process | `--storage-flush-policy` |

A flag wins over the environment, the environment over the file, the file over the default. `oncelog up`,
`oncelog cluster up` and every process of one role, such as `python -m oncelog_storage`, take the file as
`--config FILE` or as `ONCELOG_CONFIG`. One file serves all of them: each program reads its own tables.

```toml
[up]
port = 9092
data = "/var/lib/oncelog"
log_format = "json"

[storage]
flush_policy = "always"
```

A name that no program reads is refused at the start, in the environment and in the file, with the nearest name that
there is. A program checks the names in its own tables. Lines that are logged go to stderr, with the time in UTC.

In `oncelog up` and `oncelog cluster` some settings of roles follow from others. The last column names them. In a file
they are refused there; in the environment they have no effect.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(kind) for kind in KINDS)


def _section(kind: type[BaseSettings]) -> str:
    table = table_of(kind)
    lines = [
        f"\n## [{table}]\n",
        f"\nRead by {_READ_BY[table]}.\n\n",
        "| setting | variable | default | unit | bounds | what it is, and why | follows from others in |\n",
        "| --- | --- | --- | --- | --- | --- | --- |\n",
    ]
    for name, field in kind.model_fields.items():
        cells = (
            f"`{name}`",
            f"`{variable_of(kind, name)}`",
            _default(field),
            _unit(name),
            ", ".join(_bounds(field)),
            _cell(field.description or ""),
            ", ".join(_set_by(table, name)),
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none: it must be set"
    default: Any = field.default
    if default is None or default == "":
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _unit(name: str) -> str:
    if name.endswith("_bytes_per_s"):
        return "bytes/s"
    words = name.split("_")
    for word in (words[-1], words[-2] if len(words) > 1 and words[-1] == "max" else ""):
        if word in _UNITS:
            return _UNITS[word]
    return ""


def _bounds(field: FieldInfo) -> Iterator[str]:
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        yield ", ".join(f"`{member.value}`" for member in field.annotation)
    elif field.annotation is bool:
        yield "`true`, `false`"
    for one in field.metadata:
        for name, sign in _BOUNDS.items():
            if (bound := getattr(one, name, None)) is not None:
                yield f"{sign} {bound}"
        if (longest := getattr(one, "max_length", None)) is not None:
            yield f"≤ {longest} characters"


def _set_by(table: str, name: str) -> Iterator[str]:
    if name in SET_BY_UP.get(table, {}):
        yield "`oncelog up`"
    if name in SET_BY_CLUSTER.get(table, {}):
        yield "`oncelog cluster`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
