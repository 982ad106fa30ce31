"""The rule for topic names: those that Kafka allows."""

import re
from typing import Final

TOPIC_NAME_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def is_legal_topic_name(name: str) -> bool:
    return len(name) <= TOPIC_NAME_MAX and name not in (".", "..") and bool(_LEGAL.fullmatch(name))
