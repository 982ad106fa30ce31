"""A Kafka-compatible exactly-once log.

    import oncelog
    from oncelog.client.blocking import Producer

    with oncelog.running() as log, Producer(log.bootstrap_servers) as producer:
        producer.send("payments", "42", key="alice").result()

`running` starts a log of its own in a child process and removes it at the end. The `oncelog` command does everything
else.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.embedded import RunningLog, running

    __version__: str

__all__ = ["RunningLog", "__version__", "running"]


def __getattr__(name: str) -> object:
    """Import a name of this package when it is first used: every process imports the package, and most need neither
    name.
    """
    if name == "__version__":
        from importlib.metadata import version

        return version("oncelog")
    if name in ("RunningLog", "running"):
        from oncelog import embedded

        return getattr(embedded, name)
    raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
