"""Chaos: the simulator's workloads (test clients) and checkers against real processes, or any Kafka at an address.

    python -m oncelog_robustness.chaos --minutes 10 --seed 7   a cluster of its own, every role struck by a seeded plan
    python -m oncelog_robustness.chaos --bootstrap localhost:9092   any Kafka; only our own clients are killed
    python -m oncelog_robustness.chaos --kubernetes   the pods of a release of the chart (`pods/`)

Four kinds of process: the runner (faults, verdicts, report), the cluster's own, the proxy between all of them, and the
lab. The lab forks a process for each client, so that SIGKILL is what it says. The folder of the run keeps everything:
logs, data, `history.jsonl` (what clients saw), `lags.jsonl`, and the report as JSON, Markdown and a page.

The seed fixes the plan of faults and what clients draw. Time is real, so the same seed gives the same faults, but not
the same run.
"""
