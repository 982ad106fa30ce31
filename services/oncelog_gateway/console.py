"""Pages for people. The server renders them; a script of ours reads their content again as events come. Nothing comes
from elsewhere, and nothing has to be built."""

import asyncio
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.runtime.clock import Clock
from oncelog.wording import noun
from oncelog_gateway.console_values import LagSamples, audit_rows, bar_of, event_rows
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.core.swim_lanes import NAMES_WIDTH, draw
from oncelog_gateway.core.wording import duration, size
from oncelog_gateway.explanations import Explanation, Explanations, Kind
from oncelog_gateway.groups import Groups
from oncelog_gateway.nodes import Duties, cluster_node
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.resources import ActiveProducer, PartitionStatus, TransactionState
from oncelog_gateway.roles import Roles
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.sinks import Sinks
from oncelog_gateway.timelines import Timelines
from oncelog_gateway.transactions import Transactions

PARTITIONS_READ_MAX: Final = 2_000
ROWS_MAX: Final = 200
EVENTS_SHOWN_MAX: Final = 300
_FOLDER: Final = Path(__file__).parent / "templates"
_METHODS: Final = ("get", "post", "put", "patch", "delete")


class Views(NamedTuple):
    """What the pages read."""

    transactions: Transactions
    partitions: Partitions
    groups: Groups
    sinks: Sinks
    timelines: Timelines
    explanations: Explanations


def console_router(
    app: FastAPI, roles: Roles, views: Views, settings: GatewaySettings, clock: Clock
) -> APIRouter:
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    pages = Pages(app, roles, views, settings, clock)
    for add in (
        _add_overview,
        _add_transactions,
        _add_partitions,
        _add_groups_and_sinks,
        _add_explanation,
        _add_audit_and_docs,
    ):
        add(router, pages)
    return router


class Pages:
    """Renders; what every page has in common."""

    def __init__(
        self, app: FastAPI, roles: Roles, views: Views, settings: GatewaySettings, clock: Clock
    ) -> None:
        self.app = app
        self.roles = roles
        self.views = views
        self.settings = settings
        self.clock = clock
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["duration"] = duration
        self._templates.filters["count"] = lambda number: f"{number:,}".replace(",", " ")
        self._templates.filters["noun"] = noun
        self._templates.filters["size"] = size

    def page(self, template: str, here: str, /, **values: Any) -> HTMLResponse:
        """`here`: the path in the navigation that it belongs to."""
        values.setdefault("subject", "")
        values.setdefault("events", "")
        shown = self._templates.get_template(template).render(
            version=self.app.version, here=here, **values
        )
        return HTMLResponse(shown, headers=_HEADERS)

    async def explained(self, subject: str, kind: Kind | None) -> tuple[Explanation | None, str]:
        """Or why there is no explanation."""
        try:
            return await self.views.explanations.explain(subject, kind), ""
        except KafkaError as error:
            return None, error.message

    def missing(self, subject: str, problem: str) -> HTMLResponse:
        return self.page("explain.html", "", subject=subject, found=None, problem=problem)


def _add_overview(router: APIRouter, pages: Pages) -> None:
    script = (_FOLDER / "console.js").read_bytes()
    lag_samples = LagSamples()

    @router.get("/console.js")
    async def console_script() -> Response:
        return Response(script, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    @router.get("/")
    async def index() -> HTMLResponse:
        image = pages.roles.image
        visible = [one for one in all_partitions(image) if not image.topics[one.topic].internal]
        listed, failures = await pages.views.transactions.everything()
        opened = sorted(
            (one for one in listed if one.age_ms is not None), key=lambda one: -(one.age_ms or 0)
        )
        rows = await pages.views.partitions.statuses(visible[:PARTITIONS_READ_MAX])
        rows.sort(key=_worst_first)
        lag_samples.add(pages.clock.now(), sum(row.lso_lag or 0 for row in rows))
        known_groups, group_failures = await pages.views.groups.known(ROWS_MAX)
        duties = Duties(image)
        return pages.page(
            "index.html",
            "/",
            image=image,
            opened=opened[:ROWS_MAX],
            opened_count=len(opened),
            known_count=len(listed),
            failures=failures,
            rows=rows[:ROWS_MAX],
            partition_count=len(visible),
            hanging=[row for row in rows if row.lso_holder and row.lso_holder.hanging],
            groups=known_groups,
            group_failures=group_failures,
            lagging_count=sum(bool(row.lso_lag) for row in rows),
            under_replicated_count=sum(row.under_replicated for row in rows),
            nodes=[cluster_node(image.nodes[one], duties) for one in sorted(image.nodes)],
            lags=lag_samples.line(),
            events="/v1/events?kind=transaction&limit=1",
        )


def _add_transactions(router: APIRouter, pages: Pages) -> None:
    @router.get("/transactions")
    async def transaction_list(
        id_pattern: str = "", state: str = "", late: str = ""
    ) -> HTMLResponse:
        listed, failures = await pages.views.transactions.everything()
        found = [
            one
            for one in listed
            if (not state or one.state == state)
            and (not late or one.is_late)
            and (not id_pattern or fnmatchcase(one.transactional_id, id_pattern))
        ]
        found.sort(
            key=lambda one: (
                one.age_ms is None,
                -(one.age_ms or 0),
                -(one.last_update_time_ms or 0),
            )
        )
        return pages.page(
            "transactions.html",
            "/transactions",
            rows=found[:ROWS_MAX],
            total=len(found),
            failures=failures,
            states=get_args(TransactionState),
            asked={"id_pattern": id_pattern, "state": state, "late": late},
            events="/v1/events?kind=transaction&limit=1",
        )

    @router.get("/transaction")
    async def one_transaction(id: str) -> HTMLResponse:
        found, problem = await pages.explained(id, "transaction")
        if found is None:
            return pages.missing(id, problem)
        try:
            detail = await pages.views.transactions.describe(id)
        except KafkaError:
            detail = None
        producers = () if detail is None else (detail.producer_id,)
        events = pages.views.timelines.events_of(id, producers)[-EVENTS_SHOWN_MAX:]
        return pages.page(
            "transaction.html",
            "/transactions",
            name=id,
            subject=id,
            found=found,
            detail=detail,
            picture=draw(events),
            left=NAMES_WIDTH,
            events_shown=event_rows(events)[::-1],
            missing=pages.views.timelines.history.away_reason,
            events="/v1/events?limit=1&" + urlencode({"transactional_id": id}),
        )


def _add_partitions(router: APIRouter, pages: Pages) -> None:
    @router.get("/partitions")
    async def partition_list(topic: str = "") -> HTMLResponse:
        image = pages.roles.image
        asked = [
            one
            for one in all_partitions(image, topic)
            if topic or not image.topics[one.topic].internal
        ]
        rows = await pages.views.partitions.statuses(asked[:PARTITIONS_READ_MAX])
        rows.sort(key=_worst_first)
        return pages.page(
            "partitions.html",
            "/partitions",
            rows=rows[:ROWS_MAX],
            partition_count=len(asked),
            topic=topic,
        )

    @router.get("/partition")
    async def one_partition(topic: str, partition: int) -> HTMLResponse:
        asked, name = Partition(topic, partition), f"{topic}-{partition}"
        found, problem = await pages.explained(name, "partition")
        if found is None:
            return pages.missing(name, problem)
        (row,) = await pages.views.partitions.statuses([asked])
        producers: list[ActiveProducer] = []
        try:
            producers = await pages.views.partitions.producers(asked)
        except KafkaError as error:
            problem = error.message
        where = urlencode({"topic": topic, "partition": partition})
        return pages.page(
            "partition.html",
            "/partitions",
            subject=name,
            row=row,
            found=found,
            problem=problem,
            bar=bar_of(row, producers),
            producers=producers,
            events=f"/v1/events?limit=1&{where}",
        )


def _add_groups_and_sinks(router: APIRouter, pages: Pages) -> None:
    @router.get("/groups")
    async def group_list() -> HTMLResponse:
        known, failures = await pages.views.groups.known(ROWS_MAX)
        return pages.page("groups.html", "/groups", groups=known, failures=failures)

    @router.get("/group")
    async def one_group(id: str) -> HTMLResponse:
        found, problem = await pages.explained(id, "group")
        if found is None:
            return pages.missing(id, problem)
        described = await pages.views.groups.describe(id)
        offsets = await pages.views.groups.offsets(id, PageRequest(ROWS_MAX, None))
        return pages.page(
            "group.html",
            "/groups",
            name=id,
            subject=id,
            found=found,
            offsets=offsets.offsets,
            members=described.members,
        )

    @router.get("/sinks")
    async def sink_list() -> HTMLResponse:
        found = await pages.views.sinks.page(PageRequest(ROWS_MAX, None))
        return pages.page("sinks.html", "/sinks", sinks=found.sinks, failures=found.incomplete)


def _add_explanation(router: APIRouter, pages: Pages) -> None:
    @router.get("/explain")
    async def explain(subject: str = "", kind: str = "") -> HTMLResponse:
        wanted = cast("Kind | None", kind if kind in get_args(Kind) else None)
        if not subject.strip():
            return pages.missing(
                "", "Name a transactional.id, producer id, topic-partition, group or sink."
            )
        found, problem = await pages.explained(subject.strip(), wanted)
        return pages.page("explain.html", "", subject=subject.strip(), found=found, problem=problem)


def _add_audit_and_docs(router: APIRouter, pages: Pages) -> None:
    @router.get("/audit")
    async def audit() -> HTMLResponse:
        rows = await asyncio.to_thread(audit_rows, pages.settings.audit_path)
        return pages.page("audit.html", "/audit", rows=rows)

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


def _worst_first(row: PartitionStatus) -> tuple[bool, int, bool]:
    return (row.failure is None, -(row.lso_lag or 0), not row.under_replicated)


_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}


def _by_tag(schema: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, operations in schema["paths"].items():
        for method in _METHODS:
            operation = operations.get(method)
            if operation is None:
                continue
            tags.setdefault(operation["tags"][-1], []).append(
                {
                    "method": method.upper(),
                    "path": path,
                    "summary": operation.get("summary", ""),
                    "description": operation.get("description", ""),
                    "parameters": operation.get("parameters", []),
                    "fields": _body_fields(schema, operation),
                    "responses": operation["responses"],
                }
            )
    return tags


def _body_fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
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


def _type_of(field: dict[str, Any]) -> str:
    """A body within a body is an object, a choice of words its type."""
    choices = field.get("anyOf", [field])
    return "/".join(dict.fromkeys(one.get("type", "object") for one in choices))
