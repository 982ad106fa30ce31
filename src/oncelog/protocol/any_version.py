"""A type alias for Kafka messages of any version: their class is known only when the program runs.

Each version of a message has a class of its own (`oncelog.protocol.messages`). The fields differ by version, so no type
of Python's says which a message has. The same holds for the answers to private calls, which are found by the name of
their method.
"""

from typing import Any, TypeAlias

AnyMessage: TypeAlias = Any
"""A request, a response, or a structure in one."""
