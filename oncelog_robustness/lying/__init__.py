"""A proxy before any Kafka broker which plants one bug in what the broker does, to see that our checkers notice.

python -m oncelog_robustness.lying --bug show-aborted --to 127.0.0.1:9092 --listen 127.0.0.1:19092
"""
