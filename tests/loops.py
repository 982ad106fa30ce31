"""The event loops of async tests."""

import asyncio

import uvloop


class DeafToOtherLoops:
    """gRPC has one poller a process: in this test's loop it may try to wake the loop of a test that has ended."""

    def call_exception_handler(self, context):
        if "PollerCompletionQueue" not in f"{context.get('handle')} {context.get('message')}":
            super().call_exception_handler(context)


class LoopOfATest(DeafToOtherLoops, asyncio.SelectorEventLoop):
    pass


class UvLoopOfATest(DeafToOtherLoops, uvloop.Loop):
    pass
