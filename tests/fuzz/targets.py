"""What the fuzzer feeds, by name.

Each target is a module with

- `fed(data) -> bool`: takes any bytes. True: accepted; False: refused as documented. An exception is a finding.
- `seeds() -> list[bytes]`: inputs that our own encoders make, all of them accepted.
"""

from importlib import import_module

TARGETS = ("requests", "batches", "private_calls", "scram", "plain", "oauth_bearer", "tokens")


def target(name):
    assert name in TARGETS, f"{name!r} is none of {', '.join(TARGETS)}"
    return import_module(f"tests.fuzz.{name}_target")
