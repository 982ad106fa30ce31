"""The Spark driver as a process that is killed and started again from its checkpoint."""

import os
import sys
from pathlib import Path

from oncelog_server.demo.pipeline import PipelineSettings
from oncelog_server.demo.processes import OwnProcess, ProcessDied

UNPLANNED_DEATHS_MAX = 5


class SparkDriver:
    """The process of `oncelog_server.demo.pipeline`, with its JVM and Python workers, in a session of its own."""

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
        self._settings_file = folder / "pipeline.json"
        self._log = folder / "spark.log"
        settings.write(self._settings_file)
        self._process: OwnProcess | None = None
        self.unplanned_deaths = 0

    def start(self) -> None:
        self._process = OwnProcess(
            [sys.executable, "-m", "oncelog_server.demo.pipeline", str(self._settings_file)],
            self._log,
            {
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
            },
        )

    def kill(self) -> None:
        """Send SIGKILL to the driver, its JVM and its workers at once."""
        if self._process is not None:
            self._process.kill_group()

    def begin_to_stop(self) -> None:
        """Ask the driver to end, and do not wait. If it does not end, `kill` does that."""
        if self._process is not None:
            self._process.terminate()

    def restart_if_dead(self) -> bool:
        """Start the driver again from its checkpoint if it died without a planned kill, such as when oncelog was away
        for too long. Returns True if it was started.

        Raises ProcessDied, with the end of the log, once that has happened too often.
        """
        assert self._process is not None, "start() comes first"
        if self._process.exit_code is None:
            return False
        self.unplanned_deaths += 1
        if self.unplanned_deaths > UNPLANNED_DEATHS_MAX:
            raise ProcessDied(
                f"Spark ended {self.unplanned_deaths} times by itself; {self._log} ends with:\n"
                f"{self._process.log_tail()}"
            )
        self._process.kill_group()
        self.start()
        return True
