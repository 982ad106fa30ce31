"""The console: web pages for people. The server renders them, and a small script loads their content again when events
arrive. Nothing is loaded from other sites, and there is no build step.
"""

from http import HTTPStatus
from typing import Final, cast, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.rpc.metadata import MetadataImage
from oncelog.telemetry.events import EventFilter
from oncelog_gateway.access import Access
from oncelog_gateway.console_bars import bars_page, partition_names
from oncelog_gateway.console_cluster import add_nodes, add_producers
from oncelog_gateway.console_login import add_login
from oncelog_gateway.console_pages import (
    OVERVIEW_ROWS_MAX,
    PARTITIONS_READ_MAX,
    ROWS_MAX,
    TEMPLATES,
    Explained,
    Pages,
    Steps,
    page_number,
    rows_of,
)
from oncelog_gateway.console_rates import add_rates, charts_of_families, charts_of_group
from oncelog_gateway.console_record import add_record
from oncelog_gateway.console_records import add_records
from oncelog_gateway.console_topics import add_topics
from oncelog_gateway.console_values import audit_row, bar_of, event_rows
from oncelog_gateway.core.epoch_use import EpochAdvice, epoch_advice
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.core.route_roles import ROLE_OF
from oncelog_gateway.core.slow_transactions import slowest
from oncelog_gateway.core.swim_lanes import NAMES_WIDTH, draw
from oncelog_gateway.core.topic_configs import OpenApi
from oncelog_gateway.core.transaction_spans import gather
from oncelog_gateway.operators import Operators
from oncelog_gateway.partitions import all_partitions
from oncelog_gateway.problems import status_of
from oncelog_gateway.record_access import RecordAccess
from oncelog_gateway.resources import TransactionDetail, TransactionState
from oncelog_gateway.subjects import KINDS, Kind, partition_of

EVENTS_SHOWN_MAX: Final = 300
EVENTS_GATHERED_MAX: Final = 8_000
"""The most events that the console sorts into transactions for one page: about a thousand transactions. While it does,
the event loop does nothing else.
"""
GROUPS_MAX: Final = 10_000
ACTS_SHOWN_MAX: Final = 200
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_ROLES: Final = {
    (method, path.replace(":path}", "}")): role.word for (method, path), role in ROLE_OF.items()
}
"""The word of the role that each route needs, by its method and its path as OpenAPI spells it."""


def console_router(
    pages: Pages, access: Access, record_access: RecordAccess, operators: Operators
) -> APIRouter:
    router = APIRouter(
        include_in_schema=False, default_response_class=HTMLResponse, route_class=pages.route()
    )
    for add in (
        _add_overview,
        _add_transactions,
        _add_slowest,
        _add_partitions,
        add_topics,
        add_producers,
        _add_groups_and_sinks,
        add_nodes,
        add_rates,
        _add_explanation,
        _add_audit_and_docs,
    ):
        add(router, pages)
    add_records(router, pages, record_access, operators)
    add_record(router, pages, record_access, operators)
    add_login(router, pages, access, operators)
    return router


def _add_overview(router: APIRouter, pages: Pages) -> None:
    script = (TEMPLATES / "console.js").read_bytes()
    style = (TEMPLATES / "style.css").read_bytes()

    @router.get("/console.js")
    async def console_script() -> Response:
        return Response(script, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    @router.get("/console.css")
    async def console_style() -> Response:
        return Response(style, media_type="text/css", headers={"Cache-Control": "no-cache"})

    @router.get("/")
    async def index() -> HTMLResponse:
        found = await pages.views.overviews.look(OVERVIEW_ROWS_MAX)
        image, now = pages.roles.image, pages.clock.now()
        return pages.page(
            "index.html",
            "/",
            found=found,
            verdict=found.verdict,
            image=image,
            fenced_count=sum(node.fenced for node in image.nodes.values()),
            opened=found.opened,
            held=pages.views.partitions.rows(found.looked, found.held[:OVERVIEW_ROWS_MAX]),
            now=now,
            lag_charts=charts_of_families(pages, "lso_lag"),
            events="/v1/events?kind=transaction&limit=1",
        )


def _add_transactions(router: APIRouter, pages: Pages) -> None:
    @router.get("/transactions")
    async def transaction_list(
        id_pattern: str = "", state: str = "", late: str = "", two_phase: str = "", page: str = "1"
    ) -> HTMLResponse:
        number = page_number(page)
        filters = {
            "id_pattern": id_pattern,
            "state": state,
            "late": late,
            "two_phase": two_phase,
        }
        found = await pages.views.transactions.urgent(
            ROWS_MAX,
            skipped=(number - 1) * ROWS_MAX,
            states=[state] if state else (),
            id_pattern=id_pattern,
            late_only=bool(late),
            two_phase_only=bool(two_phase),
        )
        return pages.page(
            "transactions.html",
            "/transactions",
            rows=found.rows,
            total=found.total,
            failures=found.failures,
            states=get_args(TransactionState),
            filters=filters,
            steps=Steps.of(number, found.total, filters),
            events="/v1/events?kind=transaction&limit=1",
        )

    @router.get("/transaction")
    async def one_transaction(id: str, page: str = "1", at: str = "") -> HTMLResponse:
        """Show one transactional id. `at`: the key of a transaction whose bar is wanted, on whichever page that is."""
        explanation = await pages.explained(id, "transaction")
        if explanation.found is None:
            return pages.missing(id, explanation)
        status: int = HTTPStatus.OK
        try:
            detail = await pages.views.transactions.describe(id)
        except KafkaError as error:
            detail, status = None, status_of(error.error_code)
        producers = () if detail is None else (detail.producer_id,)
        every = pages.views.timelines.events_of(id, producers)
        events = every[-EVENTS_SHOWN_MAX:]
        page_of_it = pages.page(
            "transaction.html",
            "/transactions",
            name=id,
            subject=id,
            found=explanation.found,
            detail=detail,
            epochs=_about_epochs(pages, detail),
            **bars_page(
                id, gather(every[-EVENTS_GATHERED_MAX:]), page_number(page), pages.clock.now(), at
            ),
            trace_url=pages.settings.trace_url,
            picture=draw(events),
            left=NAMES_WIDTH,
            events_shown=event_rows(events)[::-1],
            missing=pages.views.timelines.history.away_reason,
            events="/v1/events?limit=1&" + urlencode({"transactional_id": id}),
        )
        # An id that has events is shown with them, although its coordinator does not know it now.
        if status == HTTPStatus.NOT_FOUND and not every:
            page_of_it.status_code = status
        return page_of_it


def _about_epochs(pages: Pages, detail: TransactionDetail | None) -> EpochAdvice | None:
    if detail is None:
        return None
    level = pages.roles.image.transaction_version
    return epoch_advice(detail.state, detail.transaction_version, level)


def _add_slowest(router: APIRouter, pages: Pages) -> None:
    @router.get("/slowest")
    async def slowest_transactions() -> HTMLResponse:
        history, now = pages.views.timelines.history, pages.clock.now()
        changes = history.newest(EVENTS_GATHERED_MAX, EventFilter(frozenset({"transaction"})))
        found = slowest(changes, ROWS_MAX, now)
        return pages.page(
            "slowest.html",
            "/transactions",
            found=found,
            names=partition_names,
            now=now,
            missing=history.away_reason,
            events="/v1/events?kind=transaction&limit=1",
        )


def _add_partitions(router: APIRouter, pages: Pages) -> None:
    @router.get("/partitions")
    async def partition_list(topic: str = "", page: str = "1") -> HTMLResponse:
        number = page_number(page)
        image = pages.roles.image
        partitions = [
            one
            for one in all_partitions(image, topic)
            if topic or not image.topics[one.topic].internal
        ]
        read = partitions[:PARTITIONS_READ_MAX]
        looked = await pages.views.partitions.look(read)
        worst_first = sorted(read, key=looked.trouble_of)
        return pages.page(
            "partitions.html",
            "/partitions",
            rows=pages.views.partitions.rows(looked, rows_of(worst_first, number)),
            partition_count=len(partitions),
            steps=Steps.of(number, len(read), {"topic": topic}),
            topic=topic,
        )

    @router.get("/partition")
    async def one_partition(topic: str, partition: int) -> HTMLResponse:
        partition_key, name = Partition(topic, partition), f"{topic}-{partition}"
        explanation = await pages.explained(name, "partition")
        if explanation.found is None:
            return pages.missing(name, explanation)
        (row,) = await pages.views.partitions.statuses([partition_key])
        producers = await pages.views.producers.of([partition_key], ROWS_MAX)
        where = urlencode({"topic": topic, "partition": partition})
        return pages.page(
            "partition.html",
            "/partitions",
            subject=name,
            row=row,
            found=explanation.found,
            bar=bar_of(row, producers.rows),
            producers=producers,
            now=pages.clock.now(),
            events=f"/v1/events?limit=1&{where}",
        )


def _add_groups_and_sinks(router: APIRouter, pages: Pages) -> None:
    @router.get("/groups")
    async def group_list(page: str = "1") -> HTMLResponse:
        number = page_number(page)
        known, failures = await pages.views.groups.known(GROUPS_MAX)
        shown = rows_of(known, number)
        return pages.page(
            "groups.html",
            "/groups",
            groups=shown,
            standings=await pages.views.groups.standings(
                [one.group_id for one in shown], PARTITIONS_READ_MAX
            ),
            total=len(known),
            steps=Steps.of(number, len(known), {}),
            failures=failures,
        )

    @router.get("/group")
    async def one_group(id: str) -> HTMLResponse:
        explanation = await pages.explained(id, "group")
        if explanation.found is None:
            return pages.missing(id, explanation)
        described = await pages.views.groups.describe(id)
        offsets = await pages.views.groups.offsets(id, PageRequest(ROWS_MAX, None))
        return pages.page(
            "group.html",
            "/groups",
            name=id,
            subject=id,
            found=explanation.found,
            offsets=offsets.offsets,
            standing=offsets,
            members=described.members,
            charts=charts_of_group(pages.views.rates, id),
        )

    @router.get("/sinks")
    async def sink_list() -> HTMLResponse:
        found = await pages.views.sinks.page(PageRequest(ROWS_MAX, None))
        return pages.page("sinks.html", "/sinks", sinks=found.sinks, failures=found.incomplete)


def _add_explanation(router: APIRouter, pages: Pages) -> None:
    @router.get("/explain")
    async def explain(subject: str = "", kind: str = "") -> Response:
        wanted = cast("Kind | None", kind if kind in KINDS else None)
        if elsewhere := not kind and _page_of(pages.roles.image, subject.strip()):
            return RedirectResponse(elsewhere, HTTPStatus.SEE_OTHER)
        if not subject.strip():
            what = "Name a transactional.id, producer id, topic, topic-partition, record, group or sink."
            return pages.missing("", Explained(None, what))
        # A name may begin or end with a blank; a blank that somebody pasted is likelier.
        explanation = await pages.explained(subject, wanted)
        if explanation.found is None and not explanation.kinds and subject != subject.strip():
            explanation = await pages.explained(subject.strip(), wanted)
        name = subject.strip()
        if explanation.found is None and not explanation.kinds and name in pages.roles.image.topics:
            return RedirectResponse(f"/topic?{urlencode({'name': name})}", HTTPStatus.SEE_OTHER)
        return pages.missing(subject, explanation)


def _add_audit_and_docs(router: APIRouter, pages: Pages) -> None:
    @router.get("/audit")
    async def audit() -> HTMLResponse:
        acts = await pages.views.acts.newest(ACTS_SHOWN_MAX)
        return pages.page("audit.html", "/audit", rows=[audit_row(one) for one in acts])

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        schema = pages.app.openapi()
        return pages.page(
            "docs.html",
            "/docs",
            schema=schema,
            tags=_by_tag(schema),
            base=str(request.base_url).rstrip("/"),
        )


def _page_of(image: MetadataImage, text: str) -> str:
    """Return the URL of the page for a text in the search field that names one place: `orders-0@17` is a record, and
    `night-*` a list of transactions. Empty for any other text.
    """
    partition, at, offset = text.rpartition("@")
    found = partition_of(partition) if at and offset.isdecimal() else None
    if found is not None and image.partition(found) is not None:
        return f"/record?{urlencode({**found._asdict(), 'offset': offset})}"
    return f"/transactions?{urlencode({'id_pattern': text})}" if "*" in text else ""


def _by_tag(schema: OpenApi) -> dict[str, list[OpenApi]]:
    tags: dict[str, list[OpenApi]] = {}
    for path, operations in schema["paths"].items():
        for method in _METHODS:
            operation = operations.get(method)
            if operation is None:
                continue
            tags.setdefault(operation["tags"][-1], []).append(
                {
                    "method": method.upper(),
                    "role": _ROLES.get((method.upper(), path), ""),
                    "path": path,
                    "summary": operation.get("summary", ""),
                    "description": operation.get("description", ""),
                    "parameters": operation.get("parameters", []),
                    "fields": _body_fields(schema, operation),
                    "responses": operation["responses"],
                }
            )
    return tags


def _body_fields(schema: OpenApi, operation: OpenApi) -> list[OpenApi]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    body = content.get("schema", {})
    reference = body.get("$ref") or next(
        (one["$ref"] for one in body.get("anyOf", []) if "$ref" in one), None
    )
    if reference is None:
        return []
    model = schema["components"]["schemas"][reference.rsplit("/", 1)[-1]]
    required = model.get("required", [])
    return [
        {
            "name": name,
            "required": name in required,
            "type": _type_of(field),
            "default": field.get("default"),
            "description": field.get("description", ""),
        }
        for name, field in model["properties"].items()
    ]


def _type_of(field: OpenApi) -> str:
    """Return the JSON type of a request body's field, for the console's page about REST. A field without a type is
    shown as an object.
    """
    choices = field.get("anyOf", [field])
    return "/".join(dict.fromkeys(one.get("type", "object") for one in choices))
