"""The two messages of a SCRAM exchange, each behind two bytes of its length."""

import struct
from functools import cache

from oncelog.security.sasl import SCRAM_SHA_256, SaslAuthenticationError
from oncelog.security.scram import ScramClient, ScramServer, make_credential
from oncelog.security.scram_salts import unknown_salt

USER, PASSWORD = "alice", "of a test"
SERVER_NONCE = "server-nonce"
CLIENT_NONCE = "client-nonce"
MESSAGES_MAX = 4


@cache
def credential():
    return make_credential(SCRAM_SHA_256, PASSWORD, salt=b"salt of a test")


def server():
    return ScramServer(
        SCRAM_SHA_256,
        lambda user: credential() if user == USER else None,
        unknown_salt=lambda user: unknown_salt(bytes(16), SCRAM_SHA_256, user, ()),
        nonce=SERVER_NONCE,
    )


def fed(data):
    exchange = server()
    try:
        for message in messages_of(data):
            exchange.evaluate(message)
            if exchange.is_complete:
                break
    except SaslAuthenticationError:
        assert not exchange.is_complete
        return False
    if exchange.is_complete:
        assert exchange.principal.name == USER
    return exchange.is_complete


def messages_of(data):
    position = 0
    for _ in range(MESSAGES_MAX):
        if position + 2 > len(data):
            return
        (size,) = struct.unpack_from(">H", data, position)
        yield data[position + 2 : position + 2 + size]
        position += 2 + size


def seeds():
    client, exchange = ScramClient(SCRAM_SHA_256, USER, PASSWORD, nonce=CLIENT_NONCE), server()
    first = client.evaluate(b"")
    final = client.evaluate(exchange.evaluate(first))
    return [b"".join(struct.pack(">H", len(one)) + one for one in (first, final))]
