"""Published verdicts: `oncelog verify` on Apache Kafka and on oncelog, the same run on each, side by side."""
