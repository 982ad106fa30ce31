"""Measurements of oncelog, each beside librdkafka's mock cluster where that can do the same, in the same run.

`python -m bench` runs them all and writes `bench/results/` and the table in `docs/performance.md`.
"""
