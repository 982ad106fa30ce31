"""Counts put into words, for messages that people read."""


def noun(count: int, singular: str) -> str:
    """Return `singular` as it stands behind that number; for nouns that take an s."""
    return singular if count == 1 else f"{singular}s"


def counted(count: int, singular: str) -> str:
    """Return the count with its noun: `1 partition`, `2 partitions`."""
    return f"{count} {noun(count, singular)}"
