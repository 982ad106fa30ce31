"""A client of the gateway's REST API. It is made with Python's standard library, because its four kinds of request need
no more.
"""

import http
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import typer

from oncelog.errors import OncelogError
from oncelog_server.cli.addresses import checked_gateway
from oncelog_server.cli.options import credentials, named

TIMEOUT_S: Final = 30.0
EVENT_STREAM: Final = "text/event-stream"
COMMAND_OF: Final = (
    ("/v1/groups", "oncelog groups list"),
    ("/v1/sinks", "oncelog sinks list"),
    ("/v1/topics", "oncelog topics list"),
    ("/v1/transactions", "oncelog transactions list"),
    ("/v1/reassignments", "oncelog partitions reassignments"),
    ("/v1/nodes", "oncelog nodes list"),
    ("/v1/tokens", "oncelog tokens list"),
)
"""Requests that the gateway tells readers of REST to make, each with the command that makes it."""
Answer: TypeAlias = Any
"""The JSON of an answer. The caller says which of `cluster_answers` and `transaction_answers` it is: the gateway's
models are those types, and a test compares them.
"""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Rest:
    """A client of one gateway. Every method raises OncelogError, with the detail of the gateway's problem, or that no
    gateway answers at the address.

    A value that the gateway's schema refuses is reported like a wrong argument of the command.
    """

    def __init__(self, gateway: str) -> None:
        parts = urllib.parse.urlsplit(checked_gateway(gateway))
        self._named = named(gateway)
        self._base = gateway.rstrip("/")
        # A proxy for the internet does not know this machine's loopback address.
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(*proxies, _NoRedirects())
        self._opener.addheaders.extend(credentials(gateway).items())

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Answer:
        """Send GET and return the answer. `query` values may be lists; None and empty ones are left out."""
        given = {
            name: value for name, value in (query or {}).items() if value not in (None, "", [], ())
        }
        suffix = f"?{urllib.parse.urlencode(given, doseq=True)}" if given else ""
        return self._ask("GET", path + suffix, None)

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Answer:
        return self._ask("POST", path, None if body is None else json.dumps(body).encode())

    def put(self, path: str, body: Mapping[str, object]) -> Answer:
        return self._ask("PUT", path, json.dumps(body).encode())

    def delete(self, path: str) -> Answer:
        """Send DELETE and return the answer; None where it has no content."""
        return self._ask("DELETE", path, None)

    def events(self, path: str, last_id: str = "") -> Iterator[Answer]:
        """Yield the data of each server-sent event as it arrives, after the event `last_id`. Ends when the connection
        ends.
        """
        request = urllib.request.Request(self._base + path, headers={"Accept": EVENT_STREAM})
        if last_id:
            request.add_header("Last-Event-ID", last_id)
        with self._answered(request) as answer:
            yield from read_events(answer)

    def _ask(self, method: str, path: str, body: bytes | None) -> Answer:
        request = urllib.request.Request(self._base + path, data=body, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        with self._answered(request) as answer:
            return None if answer.status == http.HTTPStatus.NO_CONTENT else json.load(answer)

    @contextmanager
    def _answered(self, request: urllib.request.Request) -> Iterator[http.client.HTTPResponse]:
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                content = error.read()
            if wrong := wrong_values(content):
                raise typer.BadParameter(wrong) from None
            raise OncelogError(_refusal(error.code, content)) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise OncelogError(
                f"cannot reach oncelog's gateway at {self._named} ({_words(reason)}); "
                "is `oncelog up` running? give --gateway"
            ) from None
        except ValueError:
            raise OncelogError(
                f"{self._base} does not answer as oncelog's gateway does; give another --gateway"
            ) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the gateway sends none, and another address must not get the token."""

    def redirect_request(self, *_: object) -> None:
        return None


def read_events(lines: Iterable[bytes]) -> Iterator[Answer]:
    """Yield the data of each event of a `text/event-stream`. Raises ValueError for data that is no JSON."""
    for line in lines:
        if line.startswith(b"data: "):
            yield json.loads(line[len(b"data: ") :])


def quoted(name: str) -> str:
    """Return the name quoted as one segment of a URL's path; slashes are quoted too."""
    return urllib.parse.quote(name, safe="")


def wrong_values(content: bytes) -> str:
    """Return in words which values the gateway's schema refused, by the names of the command's options. Empty for any
    other problem.
    """
    try:
        errors = json.loads(content).get("errors") or ()
        return "; ".join(
            f"{_option(one['location'])}: {one['message'].removeprefix('Value error, ')}"
            for one in errors
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def _option(location: str) -> str:
    """Return the command's option for a location in a problem: `query.producer_id.0` gives `--producer-id`."""
    place, _, name = location.partition(".")
    word = name.split(".")[0].replace("_", "-") or place
    return word if place == "path" else f"--{word}"


def _refusal(status: int, content: bytes) -> str:
    try:
        problem = json.loads(content)
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered {status}; is that address oncelog's?"
    if status == http.HTTPStatus.UNAUTHORIZED:
        detail += "; give it with --token-file, ONCELOG_TOKEN or a profile's token_file"
    for path, command in COMMAND_OF:
        detail = detail.replace(f"GET {path}", f"`{command}`")
    name = problem.get("kafka_error_name")
    return f"{detail} [{name}]" if name else detail


def _words(reason: object) -> str:
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return str(reason) or type(reason).__name__
