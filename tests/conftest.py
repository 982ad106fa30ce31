"""For all tests: what must be true for a failure to be told."""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    """Garbage is collected before a failure is put into words, not meanwhile.

    Telling it parses the sources of tests, and CPython 3.11 ends that with "AST constructor recursion depth mismatch"
    when a parse begins within it. A future whose exception nobody looked at does that when it is collected: asyncio
    logs its traceback, and to underline the failing expression a traceback is parsed.
    """
    if call.excinfo is None:
        return (yield)
    gc.collect()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
