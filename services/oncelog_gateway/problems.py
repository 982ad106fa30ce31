"""Turns every error of the gateway into a problem of RFC 9457, so that all errors have one shape.

`detail` names the value and what to do. `kafka_error_name` and `kafka_error_code` are there when a role refused with
one of Kafka's errors. So the person who reads the problem sees what the role decided.
"""

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, TypedDict

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.core.topic_configs import OpenApi

PROBLEM_JSON: Final = "application/problem+json"
_SCHEMA: Final = {"$ref": "#/components/schemas/Problem"}
RETRY_AFTER_S: Final = 1

_STATUS_OF: Final[dict[ErrorCode, HTTPStatus]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: HTTPStatus.NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.BROKER_ID_NOT_REGISTERED: HTTPStatus.NOT_FOUND,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: HTTPStatus.NOT_FOUND,
    ErrorCode.NON_EMPTY_GROUP: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: HTTPStatus.NOT_FOUND,
    # The schema has refused what could never be right; what Kafka refuses after that, this cluster's state forbids.
    ErrorCode.DUPLICATE_RESOURCE: HTTPStatus.CONFLICT,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_PRODUCER_EPOCH: HTTPStatus.CONFLICT,
    ErrorCode.PRODUCER_FENCED: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_TXN_STATE: HTTPStatus.CONFLICT,
    ErrorCode.CONCURRENT_TRANSACTIONS: HTTPStatus.CONFLICT,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_TOPIC_EXCEPTION: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_PARTITIONS: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_REPLICATION_FACTOR: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_CONFIG: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_UPDATE_VERSION: HTTPStatus.CONFLICT,
    ErrorCode.FEATURE_UPDATE_FAILED: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_REQUEST: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.OFFSET_OUT_OF_RANGE: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.MESSAGE_TOO_LARGE: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.INVALID_RECORD: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.INVALID_TIMESTAMP: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.POLICY_VIOLATION: HTTPStatus.CONFLICT,
    ErrorCode.INVALID_REGULAR_EXPRESSION: HTTPStatus.UNPROCESSABLE_ENTITY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.UNSUPPORTED_VERSION: HTTPStatus.NOT_IMPLEMENTED,
    ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
    ErrorCode.BROKER_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}

_MEANING: Final[dict[int, str]] = {
    400: "The request could not be parsed",
    401: "No token, or one that is not known; `detail` says how to get one",
    403: "Not allowed: a page of another site asked, or the role is too low",
    404: "There is no such thing",
    405: "The path does not take this method",
    409: "The state of the transaction, topic, group or cluster forbids it",
    413: "The request body is too large",
    421: "The Host header names no host of this gateway",
    415: "The body must be application/json",
    422: "A value is refused; `errors` or `detail` names it",
    429: "Too many wrong tokens came from this address; try again later",
    431: "The request line and headers are too large",
    500: "A role failed in a way that is a bug",
    501: "A role is of an older version, which cannot do this",
    503: "A role is not available now; try again",
    504: "A role did not answer in time",
}

ALWAYS: Final = (401, 403, 421, 422, 429, 431, 500, 503, 504)
"""HTTP statuses that any call may end in."""


class FieldProblem(BaseModel):
    location: str = Field(examples=["query.limit"])
    message: str


class Problem(BaseModel):
    """A problem as RFC 9457 defines it."""

    type: str = Field(examples=["urn:oncelog:kafka-error:UNKNOWN_TOPIC_OR_PARTITION"])
    title: str
    status: int
    detail: str
    kafka_error_name: str | None = None
    kafka_error_code: int | None = None
    errors: list[FieldProblem] | None = None


Responses = dict[int | str, OpenApi]
"""The answers of a route by status, as FastAPI takes them."""


class RouteArguments(TypedDict):
    """Keyword arguments for FastAPI's route decorators, as `described` makes them."""

    path: str
    summary: str
    responses: Responses


def documented(*statuses: int) -> Responses:
    """Return the `responses` argument of a route: the problems that every route may answer, and those with these
    statuses.
    """
    return {
        status: {
            "description": _MEANING[status],
            "content": {PROBLEM_JSON: {"schema": _SCHEMA}},
        }
        for status in sorted({*ALWAYS, *statuses})
    }


def described(path: str, summary: str, *statuses: int) -> RouteArguments:
    """Return the arguments of a route's decorator: its path, its summary, and the statuses of its own problems for
    OpenAPI.
    """
    return {"path": path, "summary": summary, "responses": documented(*statuses)}


def status_of(error_code: ErrorCode) -> HTTPStatus:
    """Return the HTTP status with which REST answers a Kafka error code."""
    known = _STATUS_OF.get(error_code)
    if known is not None:
        return known
    return (
        HTTPStatus.SERVICE_UNAVAILABLE
        if error_code.is_retriable
        else HTTPStatus.INTERNAL_SERVER_ERROR
    )


def problem_of(error: KafkaError) -> Problem:
    status = status_of(error.error_code)
    return Problem(
        type=f"urn:oncelog:kafka-error:{error.error_code.name}",
        title=status.phrase,
        status=status.value,
        detail=error.message or f"refused with {error.error_code.name}",
        kafka_error_name=error.error_code.name,
        kafka_error_code=error.error_code.value,
    )


def plain_problem(status: int, detail: str, errors: list[FieldProblem] | None = None) -> Problem:
    """Return a problem for an error of HTTP itself, such as a wrong method, without a Kafka error code."""
    return Problem(
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        errors=errors,
    )


def problem_json(problem: Problem) -> bytes:
    # ASCII only: a value quoted from the request may hold what UTF-8 cannot carry.
    return json.dumps(problem.model_dump(exclude_none=True)).encode("ascii")


def respond(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    extra = {"Retry-After": str(RETRY_AFTER_S)} if problem.status == 503 else {}
    return Response(
        problem_json(problem),
        problem.status,
        headers={**extra, **(headers or {})},
        media_type=PROBLEM_JSON,
    )


def install(
    app: FastAPI, routes: Sequence[Route], page_of: Callable[[str, HTTPStatus], Response]
) -> None:
    """Add handlers to the application that answer every error as a problem. `routes` tell which methods a path takes.

    `page_of` makes the HTML page that a browser gets for a path that does not exist.
    """

    @app.exception_handler(KafkaError)
    async def on_kafka_error(_request: Request, error: KafkaError) -> Response:
        return respond(problem_of(error))

    @app.exception_handler(RequestValidationError)
    async def on_invalid(_request: Request, error: RequestValidationError) -> Response:
        return respond(_validation_problem(error))

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND:
            detail = f"no such path: {request.url.path}; GET /docs lists them all"
            if "text/html" in request.headers.get("Accept", ""):
                return page_of(detail, HTTPStatus.NOT_FOUND)
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = _allowed(routes, request)
            detail = f"{request.url.path} does not take {request.method}; it takes {allowed}"
            return respond(plain_problem(error.status_code, detail), {"Allow": allowed})
        return respond(plain_problem(error.status_code, detail), dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def on_bug(_request: Request, _error: Exception) -> Response:
        return respond(plain_problem(500, "the gateway failed; its log has the traceback"))


def _allowed(routes: Sequence[Route], request: Request) -> str:
    """Return the methods of the request's path, for the Allow header. They are those of all routes with the first path
    template that fits.
    """
    fitting = [route for route in routes if route.path_regex.match(request.url.path)]
    if not fitting:
        return "GET"
    methods = {
        method
        for route in fitting
        if route.path == fitting[0].path
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))


def _validation_problem(error: RequestValidationError) -> Problem:
    errors = [
        FieldProblem(location=".".join(str(part) for part in one["loc"]), message=one["msg"])
        for one in error.errors()[:20]
    ]
    detail = "; ".join(f"{one.location}: {one.message}" for one in errors)
    return plain_problem(422, detail or "the request is not valid", errors)
