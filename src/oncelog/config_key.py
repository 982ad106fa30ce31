"""One configuration key: its type, default and bounds, and the check of a value that a client sends.

Names, types and bounds are Kafka's. Tables of keys: `oncelog.topic_config`, `oncelog.broker_config`,
`oncelog.group_config`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from oncelog.errors import ErrorCode, KafkaError

ConfigType = Literal["int", "long", "double", "boolean", "string", "list"]

DAY_MS: Final = 86_400_000
NEVER_MS: Final = 2**63 - 1

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(
    r"[+-]?([0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?"
)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    kind: ConfigType
    default: str
    doc: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    may_be_empty: bool = False
    """True if a list without a name in it is a value, too."""
    unsupported: str = ""
    """The reason why only the default can be set; empty: any value can. oncelog always does what the default says."""
    is_secret: bool = False
    """True if messages must not repeat a value that somebody sent for the key."""

    def check(self, value: str) -> str:
        """Return the value as it is stored, if it is valid.

        Raises KafkaError(INVALID_CONFIG) that names the key, the value and what is allowed.
        """
        checked = self._checked(value.strip())
        if self.unsupported and checked != self.default:
            raise self._refuse(value, f"is refused: {self.unsupported}; leave {self.default!r}")
        return checked

    def _checked(self, value: str) -> str:
        match self.kind:
            case "int" | "long":
                # Python's int() takes 1_000 and digits of other scripts too.
                if not _WHOLE_NUMBER.fullmatch(value):
                    raise self._refuse(value, "is not a whole number")
                number = int(value)
                if self.minimum is not None and number < self.minimum:
                    raise self._refuse(value, f"is below {self.minimum}")
                largest = self.maximum or (2**31 - 1 if self.kind == "int" else 2**63 - 1)
                if number > largest:
                    raise self._refuse(value, f"is above {largest}")
                if self.choices and str(number) not in self.choices:
                    raise self._refuse(value, f"is not one of {', '.join(self.choices)}")
                return str(number)
            case "double":
                return self._check_share(value)
            case "boolean":
                if value.lower() not in ("true", "false"):
                    raise self._refuse(value, "is neither true nor false")
                return value.lower()
            case "string":
                if self.choices and value not in self.choices:
                    raise self._refuse(value, f"is not one of {', '.join(self.choices)}")
                return value
            case "list":
                return self._check_list(value)

    def _check_list(self, value: str) -> str:
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if not parts and not self.may_be_empty:
            raise self._refuse(value, f"names nothing; it may name {', '.join(self.choices)}")
        if self.choices and any(part not in self.choices for part in parts):
            raise self._refuse(value, f"may name {', '.join(self.choices)}")
        return ",".join(dict.fromkeys(parts))

    def _check_share(self, value: str) -> str:
        """Return the text of a number from 0 to the key's maximum, or to 1, as most of Kafka's configs of this type
        are.

        Raises KafkaError for any other.
        """
        largest = self.maximum or 1
        if not _DECIMAL.fullmatch(value):
            raise self._refuse(value, "is not a number")
        share = float(value)
        if not 0 <= share <= largest:
            raise self._refuse(value, f"is not between 0 and {largest:g}")
        return str(share)

    def _refuse(self, value: str, reason: str) -> KafkaError:
        shown = self.name if self.is_secret else f"{self.name}={value!r}"
        return KafkaError(ErrorCode.INVALID_CONFIG, f"{shown} {reason}")


def table_of(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    return {key.name: key for key in keys}


def known_key(table: Mapping[str, ConfigKey], kind: str, name: str) -> ConfigKey:
    """Return the config key of this name. Raises KafkaError(INVALID_CONFIG) that names the most similar keys."""
    key = table.get(name)
    if key is not None:
        return key
    near = difflib.get_close_matches(name, table, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"describe a {kind} to see its keys"
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown {kind} config {name!r}; {hint}")
