"""Turns a topic's configs into the rules by which its leader checks a producer's batch: the timestamps it may have, its
largest size, and whether each record needs a key.
"""

from oncelog.record.check import CheckRules
from oncelog.record.codecs import produced_bytes_max
from oncelog.topic_config import TopicConfig


def rules_of_topic(config: TopicConfig, now: int) -> CheckRules:
    bytes_max = produced_bytes_max(config.max_message_bytes)
    if config.is_log_append_time:
        return CheckRules(
            config.is_compacted, decompressed_bytes_max=bytes_max, is_log_append_time=True
        )
    return CheckRules(
        config.is_compacted,
        now - config.timestamp_before_max_ms,
        now + config.timestamp_after_max_ms,
        bytes_max,
    )
