"""Quantiles of a latency from how many observations fell into each bucket, as Prometheus reckons them."""

from collections.abc import Sequence


def quantile(wanted: float, buckets: Sequence[float], bounds: Sequence[float]) -> float | None:
    """`buckets`: one more than `bounds`, for what is longer than all. Within a bucket they are taken to lie evenly.

    None: there are no observations. What is longer than all bounds is said to be as long as the last one.
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
