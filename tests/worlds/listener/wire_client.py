"""Kafka's protocol frame by frame, as a test wants to send it."""

import asyncio

from oncelog.protocol.frames import (
    framed,
    read_correlation_id,
    write_request_head,
)
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS


class WireClient:
    """Speaks Kafka's protocol frame by frame."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    @staticmethod
    async def connect(port, host="127.0.0.1"):
        return WireClient(*await asyncio.open_connection(host, port))

    def send(self, api_key, version, /, **fields):
        """Send a request of these fields; the schema, to read the answer with."""
        schema = schema_of(api_key, version)
        self.correlation_id += 1
        head = write_request_head(
            api_key, version, self.correlation_id, "test", APIS[api_key].is_flexible(version)
        )
        request = fields.pop("request", None) or schema.request(**fields)
        self.writer.write(framed([head, *schema.write_request(request)]))
        return schema

    async def frame(self):
        size = int.from_bytes(await self.reader.readexactly(4), "big", signed=True)
        return await self.reader.readexactly(size)

    async def receive(self, schema):
        frame = await asyncio.wait_for(self.frame(), 5)
        position = 5 if APIS[schema.api_key].response_has_tags(schema.version) else 4
        return read_correlation_id(frame), schema.read_response(frame, position)

    async def call(self, api_key, version, /, **fields):
        schema = self.send(api_key, version, **fields)
        correlation_id, response = await self.receive(schema)
        assert correlation_id == self.correlation_id
        return response

    async def is_closed_by_peer(self):
        try:
            return await asyncio.wait_for(self.reader.read(1), 5) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.writer.close()


async def is_alive(role):
    """Does the listener still serve a connection that comes now?"""
    client = await WireClient.connect(role.port)
    answer = await client.call(18, 0)
    client.close()
    return answer.error_code == 0
