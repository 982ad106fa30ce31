"""Measures every second how far the last stable offset (LSO) is behind: `python -m oncelog_robustness.chaos.sampler
BOOTSTRAP CONFIG PREFIX`.

It is a client and a process of its own, so that no hanging workload stops the measuring. Each line of its output is
one sample; a second without a response has none.
"""

import json
import sys
import time
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from oncelog_robustness.clients.login import choose_login, confluent_login
from oncelog_server.cli.client_config import read_client_config

PAUSE_S: Final = 1.0
TIMEOUT_S: Final = 2.0


def sample(admin: AdminClient, prefix: str) -> dict[str, int]:
    """Return how many records lie between the last stable offset and the high watermark, for each partition
    whose leader knows both offsets.

    Only topics whose names begin with `prefix` count.
    """
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    partitions = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        if name.startswith(prefix) and not name.startswith("__")
        for number in topic.partitions
    ]
    if not partitions:
        return {}
    # The stable end is read first: records written between the two requests may be counted, never hidden.
    stable = _ends(admin, partitions, IsolationLevel.READ_COMMITTED)
    high = _ends(admin, partitions, IsolationLevel.READ_UNCOMMITTED)
    # A leader that does not know its end yet is shown as one at -1.
    known = [name for name in high if high[name] >= 0 and stable.get(name, -1) >= 0]
    return {name: max(high[name] - stable[name], 0) for name in known}


def _ends(
    admin: AdminClient, partitions: list[TopicPartition], isolation: IsolationLevel
) -> dict[str, int]:
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(
        dict.fromkeys(partitions, latest),
        isolation_level=isolation,
        request_timeout=TIMEOUT_S,
    )
    return {
        f"{one.topic}-{one.partition}": future.result().offset for one, future in futures.items()
    }


def main(bootstrap: str, client_config: str, prefix: str) -> None:
    choose_login(read_client_config(client_config).login)
    settings: dict[str, Any] = {
        **confluent_login(),
        "bootstrap.servers": bootstrap,
        "log_level": 0,
    }
    admin = AdminClient(settings)
    while True:
        began_s = time.monotonic()
        try:
            lags = sample(admin, prefix)
        except KafkaException:
            lags = {}
        if lags:
            line = {"asked_s": began_s, "answered_s": time.monotonic(), "lags": lags}
            print(json.dumps(line), flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
