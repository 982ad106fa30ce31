"""Counts put into words, for messages that people read."""


def noun(count: int, singular: str) -> str:
    """`singular` as it stands behind that number; for nouns that take an s."""
    return singular if count == 1 else f"{singular}s"


def counted(count: int, singular: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} {noun(count, singular)}"
