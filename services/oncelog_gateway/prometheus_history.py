"""Reads rates of this cluster from a Prometheus, if one is configured. It goes back further than a gateway's memory,
and through restarts.

Prometheus is queried in a thread, within the time limit of a page. If that fails, the page shows a line that says so.
"""

import asyncio
import json
import math
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Final, TypedDict
from urllib.parse import urlencode

from oncelog_gateway.core.charts import Span
from oncelog_gateway.core.rate_queries import QUERIES, Query, line_of, text_of
from oncelog_gateway.core.rate_ring import Line
from oncelog_gateway.time_budget import wait_s

TIMEOUT_S: Final = 1.0
ANSWER_BYTES_MAX: Final = 4 << 20
_SAID_BYTES: Final = 300
_HEADERS: Final = {"Accept": "application/json"}


class _Series(TypedDict):
    """The JSON of one time series in Prometheus' answer."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class PrometheusAway(Exception):
    """Prometheus did not answer as expected. The message says why, for people."""


class PrometheusHistory:
    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    async def lines(self, families: Iterable[str], span: Span) -> dict[str, list[Line]]:
        """Return the lines of a chart for each metric family over this time, read from Prometheus. Raises
        PrometheusAway.
        """
        asked = [(family, query) for family in families for query in QUERIES[family]]
        timeout_s = wait_s(TIMEOUT_S)
        try:
            async with asyncio.timeout(timeout_s):
                answers = await asyncio.gather(
                    *(asyncio.to_thread(self._asked, one, span, timeout_s) for _, one in asked)
                )
        except TimeoutError:
            raise PrometheusAway(f"did not answer within {timeout_s:.1f} s") from None
        found: dict[str, list[Line]] = {family: [] for family, _ in asked}
        for (family, _), lines in zip(asked, answers, strict=True):
            found[family] += lines
        return found

    def _asked(self, query: Query, span: Span, timeout_s: float) -> list[Line]:
        """Run one query at Prometheus, and return its series as lines. Raises PrometheusAway."""
        # A value of Prometheus looks back: that of a step stands at its end.
        first_s, step_s = (span.first_ms + span.step_ms) / 1000, span.step_ms / 1000
        asked = urlencode(
            {
                "query": text_of(query, span.step_ms),
                "start": first_s,
                "end": first_s + step_s * (span.steps - 1),
                "step": step_s,
                "timeout": f"{math.ceil(timeout_s * 1000)}ms",
            }
        )
        request = urllib.request.Request(f"{self.url}/api/v1/query_range?{asked}", headers=_HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                content = answer.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            said = error.read(_SAID_BYTES).decode(errors="replace")
            raise PrometheusAway(f"answers {error.code} {error.reason}: {said}") from error
        except OSError as error:
            raise PrometheusAway(f"cannot be asked: {getattr(error, 'reason', error)}") from error
        if len(content) > ANSWER_BYTES_MAX:
            raise PrometheusAway(f"answers with more than {ANSWER_BYTES_MAX >> 20} MiB")
        try:
            result: list[_Series] = json.loads(content)["data"]["result"]
            return [
                line_of(query, one["metric"], one["values"], first_s, step_s, span.steps)
                for one in result
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise PrometheusAway(f"answers what cannot be read: {error!r}") from error
