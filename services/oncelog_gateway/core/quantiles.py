"""Quantiles of a latency from how many observations fell into each bucket, computed as Prometheus does."""

from collections.abc import Sequence


def quantile(wanted: float, buckets: Sequence[float], bounds: Sequence[float]) -> float | None:
    """Return the value below which the part `wanted` of all observations lies; None: there are no observations.

    `buckets` has one count more than `bounds`, for what is longer than all. Observations are taken to lie evenly
    within a bucket. Beyond the last bound, that bound is returned.
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
