"""The audit of logs at scale: a PySpark job that reads every batch's header and says what is wrong.

```
folders or a cluster ──▶ batches ──┬─ by log, in order ────────────▶ LogWalk       holes, damage, transactions, LSO
  one task a segment               └─ by log and producer, in order ▶ ProducerWalk  gaps, duplicates, epochs
__transaction_state or coordinators ──▶ states ──▶ which open transactions hang
```

Only headers, checksums and markers pass through Spark, never records. Spark sorts them on disk where memory is short. A
walk goes through sorted batches, and keeps only what is open. So the job's memory grows neither with the logs nor with
their producers.

The walks find the same faults as the checkers of `oncelog_robustness` and as `oncelog transactions find-hanging`. Tests
compare their results.
"""
