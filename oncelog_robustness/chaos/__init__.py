"""Chaos: the workloads and checkers of the simulator against processes, and against any Kafka given by its address.

    python -m oncelog_robustness.chaos --minutes 10 --seed 7   a cluster of its own, every role struck by a seeded plan
    python -m oncelog_robustness.chaos --bootstrap localhost:9092   any Kafka; only our own clients are killed
    python -m oncelog_robustness.chaos --kubernetes   the pods of a release of the chart (`pods/`)

Four kinds of process: the runner (faults, verdicts, report), the cluster's own, and the proxy between all of them. The
lab forks a process for each client, so that SIGKILL is what it says. The folder keeps everything: logs, data,
`history.jsonl` (what clients saw), `lags.jsonl`, and the report as JSON, Markdown and a page.

The seed is the plan, and what clients draw; time is real, so the same seed is the same storm, not the same run.
"""
