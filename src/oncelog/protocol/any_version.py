"""The type alias for a Kafka message whose version, and so whose class, is known only when it runs.

Each version of a message has a class of its own (`oncelog.protocol.messages`). The fields differ by version, so no type
of Python's says which a message has. The same holds for the answers to private calls, which are found by the name of
their method.
"""

from typing import Any, TypeAlias

AnyMessage: TypeAlias = Any
"""A request, a response, or a structure in one."""
