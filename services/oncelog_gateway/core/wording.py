"""Writes durations, times, sizes and rates as people read them, for the console and the command line."""

import time
from collections.abc import Iterable


def duration(milliseconds: int | None) -> str:
    """Return a duration in at most two units: `3 d 4 h`, `12 s`, `250 ms`."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1_000
    for unit_s, unit, rest_s, rest in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= unit_s:
            remainder = seconds % unit_s // rest_s
            return f"{seconds // unit_s} {unit}" + (f" {remainder} {rest}" if remainder else "")
    return f"{seconds} s"


def precise_duration(milliseconds: int) -> str:
    """Return a duration in words, with tenths below ten seconds, which `duration` leaves out: `1.4 s`. For durations
    that are compared.
    """
    if 1_000 <= milliseconds < 10_000:
        return f"{milliseconds / 1_000:.1f} s"
    return duration(milliseconds)


def time_of_day(time_ms: int, now_ms: int) -> str:
    """Return a time of day in UTC, with its date where that is not today's: `02:44:10 UTC`, `02:44:10 UTC (28 Nov)`."""
    at, now = time.gmtime(time_ms / 1_000), time.gmtime(now_ms / 1_000)
    written = time.strftime("%H:%M:%S UTC", at)
    if at[:3] == now[:3]:
        return written
    return written + time.strftime(" (%d %b)" if at[0] == now[0] else " (%d %b %Y)", at)


def size(size_bytes: int | None) -> str:
    """Return a size as text in the largest binary unit of which it has at least one: `512 B`, `1.5 KiB`;
    `–` for None.
    """
    if size_bytes is None:
        return "–"
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def rate(number: float) -> str:
    """Return a rate per second as text without its unit: `0.3`, `12`, `1200`."""
    return f"{number:.1f}" if 0 < number < 9.95 else f"{number:.0f}"


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as ranges: `0–3, 7`; empty for none."""
    spans: list[tuple[int, int]] = []
    for one in sorted(numbers):
        if spans and spans[-1][1] == one - 1:
            spans[-1] = (spans[-1][0], one)
        else:
            spans.append((one, one))
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in spans)
