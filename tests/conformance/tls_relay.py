"""A relay of bytes between a port of its own and a target, with TLS on one of its two sides.

Two of them stand around a proxy that reads frames, where clients come over TLS:

    client ══TLS══▶ relay ──▶ proxy ──▶ relay ══TLS══▶ listener
"""

import asyncio
import socket
import threading

CHUNK = 1 << 16


class TlsRelay:
    """`inward` and `outward` are TLS contexts of its two sides. A context manager."""

    def __init__(self, *, inward=None, outward=None):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.target_port = None
        self.inward = inward
        self.outward = outward
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        serve = asyncio.start_server(self._relay, sock=self._listener, ssl=self.inward)
        server = self._loop.run_until_complete(serve)
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _relay(self, reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target_port, ssl=self.outward)
        except OSError:
            writer.close()
            return
        # When one direction ends, both sides are closed: a proxy that cuts a connection cuts all of it.
        pipes = [
            asyncio.ensure_future(_pipe(reader, there[1])),
            asyncio.ensure_future(_pipe(there[0], writer)),
        ]
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, there[1]):
            one.transport.abort()
        await asyncio.wait(pipes)


async def _pipe(reader, writer):
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        return
