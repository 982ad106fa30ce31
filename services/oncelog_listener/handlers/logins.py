"""SaslHandshake and SaslAuthenticate: the requests by which a client logs in (`sasl_session.py`)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog_listener.call import CloseConnection
from oncelog_listener.sasl_session import LoginRefused

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import SaslAuthenticateCall, SaslHandshakeCall

log = logging.getLogger("oncelog.login")

_HEADERS_FROM: Final = 1
"""The version of SaslHandshake from which SASL messages have Kafka's header. After a handshake of version 0 they are
bare."""


async def sasl_handshake(call: SaslHandshakeCall) -> kafka.SaslHandshakeResponse:
    sasl = call.session.sasl
    code, mechanisms = ErrorCode.NONE, sasl.mechanisms if sasl is not None else ()
    try:
        if sasl is None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "this listener has no SASL")
        sasl.begin(call.request.mechanism, is_raw=call.version < _HEADERS_FROM)
    except KafkaError as error:
        if error.error_code is ErrorCode.ILLEGAL_SASL_STATE and sasl is not None:
            raise CloseConnection(error.message) from None
        code = error.error_code
        call.session.is_refused = sasl is not None
        log.info("%s refused: %s", call.session.peer, error.message)
    return call.types.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms)


async def sasl_authenticate(call: SaslAuthenticateCall) -> kafka.SaslAuthenticateResponse:
    session, sasl = call.session, call.session.sasl
    code, message, answer = ErrorCode.NONE, None, b""
    try:
        if sasl is None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "this listener has no SASL")
        answer = await sasl.step(call.request.auth_bytes)
        if sasl.principal is not None:
            session.logged_in(sasl.principal)
    except KafkaError as error:
        code, message = error.error_code, error.message
        session.is_refused = sasl is not None
        reason = error.reason if isinstance(error, LoginRefused) else error.message
        log.info("%s refused: %s", session.peer, reason)
    lifetime = timedelta(milliseconds=sasl.lifetime_ms if sasl is not None and not code else 0)
    return call.types.SaslAuthenticateResponse(
        error_code=code,
        error_message=message,
        auth_bytes=answer,
        session_lifetime=lifetime,
    )
