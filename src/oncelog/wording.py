"""Counts put into words, for messages that people read."""


def noun(count: int, singular: str) -> str:
    """Return the noun in the form that follows this count: `partition` for 1, else with an s."""
    return singular if count == 1 else f"{singular}s"


def counted(count: int, singular: str) -> str:
    """Return the count with its noun: `1 partition`, `2 partitions`."""
    return f"{count} {noun(count, singular)}"
