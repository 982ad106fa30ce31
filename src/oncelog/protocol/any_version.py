"""The type of messages that code reads and makes for every version of an API.

Each version of a message has a class of its own, and which one it is shows when the version is known
(`oncelog.protocol.messages`). The fields differ by version, so no type of Python's says which a message has. The same
holds for the answers to private calls, which are found by the name of their method.
"""

from typing import Any, TypeAlias

AnyMessage: TypeAlias = Any
"""A request, a response, or a structure in one."""
