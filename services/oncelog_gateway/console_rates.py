"""The console's page of rates, and the charts of rates on its other pages."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from oncelog_gateway.console_pages import Pages
from oncelog_gateway.core.charts import Chart, Span, chart_of, span_until
from oncelog_gateway.core.rate_families import FAMILIES, FAMILY_OF
from oncelog_gateway.core.rate_ring import Line
from oncelog_gateway.prometheus_history import PrometheusAway
from oncelog_gateway.rates import Rates


class Range(NamedTuple):
    minutes: int
    step_ms: int
    text: str


RANGES: Final = (
    Range(15, 10_000, "15 min"),
    Range(60, 60_000, "1 h"),
    Range(360, 300_000, "6 h"),
    Range(1_440, 900_000, "24 h"),
)
"""Time ranges to choose from. Each has about a hundred steps: as many as a picture shows, and a table may have."""


WEEK: Final = Range(7 * 1_440, 7_200_000, "7 d")
"""The range that is offered only where a Prometheus remembers it."""


class Found(NamedTuple):
    lines: Mapping[str, list[Line]]
    source: str
    """Source of the lines: empty for this gateway's memory, else the address of a Prometheus."""
    problem: str = ""


def add_rates(router: APIRouter, pages: Pages) -> None:
    @router.get("/rates")
    async def rates_page(minutes: str = "15") -> HTMLResponse:
        rates = pages.views.rates
        ranges = (*RANGES, WEEK) if rates.history is not None else RANGES
        chosen = next((one for one in ranges if str(one.minutes) == minutes), RANGES[0])
        span = span_until(rates.now(), chosen.minutes, chosen.step_ms)
        found = await _found(rates, span)
        is_fine = chosen == RANGES[0]
        charts = [
            chart_of(
                one,
                found.lines[one.name],
                span,
                since_ms=None if found.source else rates.since_ms,
                links=_links(one.of),
                looks=rates.looks(one.of),
                newest=None if is_fine else rates.lines(one.name, recent(rates)),
                coarse=() if found.source else rates.coarse(span),
            )
            for one in FAMILIES
        ]
        return pages.page(
            "rates.html",
            "/rates",
            charts=[one for one in charts if one is not None],
            missing=[one for one, chart in zip(FAMILIES, charts, strict=True) if chart is None],
            ranges=ranges,
            chosen=chosen,
            since_ms=rates.since_ms,
            found=found,
            silent=rates.silent,
        )


async def _found(rates: Rates, span: Span) -> Found:
    """Return the lines of all families for this time. They come from this gateway's memory if it reaches back so far,
    else from a Prometheus if one is configured.
    """
    since_ms = rates.since_ms
    is_remembered = since_ms is not None and since_ms <= span.first_ms
    problem = ""
    if rates.history is not None and not is_remembered:
        try:
            history = await rates.history.lines([one.name for one in FAMILIES], span)
            # `oncelog up` tells Prometheus nothing of its process.
            lines = {name: found or rates.lines(name, span) for name, found in history.items()}
            return Found(lines, rates.history.url)
        except PrometheusAway as away:
            problem = f"Prometheus at {rates.history.url} {away}"
    return Found({one.name: rates.lines(one.name, span) for one in FAMILIES}, "", problem)


def _links(of: str) -> Callable[[str], str]:
    """Return a function from the name of a chart's line to the URL of the page about it. `of` is what the names are:
    with "topic", `orders` gives `/topic?name=orders`.
    """

    def link(name: str) -> str:
        if of == "topic":
            return "/topic?" + urlencode({"name": name})
        if of == "group":
            return "/group?" + urlencode({"id": name})
        if of == "partition":
            topic, _, number = name.rpartition("-")
            return "/partition?" + urlencode({"topic": topic, "partition": number})
        return "/nodes" if of == "process" else ""

    return link


def recent(rates: Rates) -> Span:
    """Return the time that charts cover on pages other than the page of rates: the last 15 minutes."""
    return span_until(rates.now(), RANGES[0].minutes, RANGES[0].step_ms)


def charts_of_topic(rates: Rates, topic: str) -> list[Chart]:
    span = recent(rates)
    found = [
        chart_of(
            FAMILY_OF[f"produced_{unit}"]._replace(name=f"topic_{unit}", title=title, note=note),
            [
                *rates.line(f"produced_{unit}", topic, span, "produced"),
                *rates.line(f"consumed_{unit}", topic, span, "consumed"),
            ],
            span,
            since_ms=rates.since_ms,
            looks=rates.looks("topic's"),
            coarse=rates.coarse(span),
        )
        for unit, title, note in (
            ("bytes", "Bytes", ""),
            ("records", "Records", "consumed ones count markers and aborted records as well"),
        )
    ]
    return [one for one in found if one is not None]


def charts_of_group(rates: Rates, group_id: str) -> list[Chart]:
    span = recent(rates)
    found = chart_of(
        FAMILY_OF["group_readable"]._replace(
            name="group_lag", title="Lag", note="held back: by open transactions"
        ),
        [
            *rates.line("group_readable", group_id, span, "readable"),
            *rates.line("group_held_back", group_id, span, "held back"),
        ],
        span,
        since_ms=rates.since_ms,
        looks=rates.looks("group's"),
        coarse=rates.coarse(span),
    )
    return [] if found is None else [found]


def charts_of_families(pages: Pages, *names: str) -> list[Chart]:
    rates = pages.views.rates
    span = recent(rates)
    found = [
        chart_of(
            FAMILY_OF[name],
            rates.lines(name, span),
            span,
            since_ms=rates.since_ms,
            links=_links(FAMILY_OF[name].of),
            looks=rates.looks(FAMILY_OF[name].of),
            coarse=rates.coarse(span),
        )
        for name in names
    ]
    return [one for one in found if one is not None]
