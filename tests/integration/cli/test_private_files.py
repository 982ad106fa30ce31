"""What is stored can be read by nobody else: folders 0700, files 0600, whatever the umask allows."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

from confluent_kafka import KafkaException, Producer

from oncelog_server.cluster.os_process import ProcessRef
from oncelog_server.cluster.state_file import STATE_FILE, ClusterState
from oncelog_server.data_folder import make_private

DEADLINE_S = 60


def test_a_data_folder_of_up_is_its_users_alone(tmp_path):
    data, ready = tmp_path / "data", tmp_path / "ready.json"
    options = ["--port", "0", "--gateway-port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-m", "oncelog_server", "up", "--data", str(data), *options],
        umask=0o022,
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        producer = Producer(
            {
                "bootstrap.servers": json.loads(ready.read_text())["bootstrap"],
                "transactional.id": "t",
            }
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        failed = []
        producer.produce("orders", b"secret", on_delivery=lambda error, _: failed.append(error))
        try:
            producer.commit_transaction(DEADLINE_S)
        except KafkaException as error:
            raise AssertionError(f"{error}: {[str(one) for one in failed]}") from error
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    found = [data, *data.rglob("*")]
    assert {"controller.db", "logs", "oncelog.lock"} <= {path.name for path in found}
    assert list((data / "logs").glob("orders-*/*.log"))
    open_to_others = {
        str(path.relative_to(tmp_path)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in found
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }
    assert open_to_others == {}


def test_a_clusters_folder_and_state_are_its_users_alone(tmp_path):
    before = os.umask(0o022)
    try:
        folder = tmp_path / "cluster"
        make_private(folder)
        state = ClusterState((), 1, running={"redis": ProcessRef(1, 0.0)})
        state.write(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / STATE_FILE).stat().st_mode) == 0o600
