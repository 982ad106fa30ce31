"""Quantiles of a latency from how many observations fell into each bucket, computed as Prometheus does."""

from collections.abc import Sequence


def quantile(wanted: float, buckets: Sequence[float], bounds: Sequence[float]) -> float | None:
    """Return the value below which the part `wanted` (0 to 1) of all observations lies; None: there are no
    observations.

    `bounds` are the upper bounds of the buckets; `buckets` has one count more, for what is above the last bound.
    Observations are taken to lie evenly within a bucket. If the quantile is above the last bound, that bound is
    returned.
    """
    total = sum(buckets)
    if total <= 0:
        return None
    rank, below = wanted * total, 0.0
    for number, bound in enumerate(bounds):
        count = buckets[number]
        if count and below + count >= rank:
            lower = bounds[number - 1] if number else 0.0
            return lower + (bound - lower) * max(rank - below, 0.0) / count
        below += count
    return bounds[-1]
