"""What an import of Kafka's messages may load."""

import subprocess
import sys


def test_messages_do_not_load_hypothesis(tmp_path):
    """kio would: 2 s of each start, and a folder of hypothesis beside the user's data."""
    code = (
        "import oncelog_listener.wiring, oncelog_coordinator.wiring, sys;"
        "assert 'kio.static.primitive' in sys.modules; assert 'hypothesis' not in sys.modules;"
        "import hypothesis"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
