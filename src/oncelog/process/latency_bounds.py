"""The bucket bounds of all latency histograms. They are the same in every role, so latencies can be compared bucket by
bucket."""

from typing import Final

LATENCY_BOUNDS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
