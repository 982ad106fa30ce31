"""Kafka's messages, encoded and decoded with the library kio. Code outside of this package must not import kio before
it."""

import importlib
import sys

if "hypothesis" not in sys.modules:
    # Where hypothesis is installed, kio registers its types with it. That costs every start 0.4 s, or 2 s and a folder
    # `.hypothesis` in a working directory that has none.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
