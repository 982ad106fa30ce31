"""Pages for people: the index and the reference of the REST API. Server-rendered, no script, nothing from elsewhere."""

from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from oncelog.wording import noun
from oncelog_gateway.core.wording import duration, size
from oncelog_gateway.groups import Groups
from oncelog_gateway.nodes import Duties, cluster_node
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions

PARTITIONS_READ_MAX: Final = 2_000
ROWS_MAX: Final = 200
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def console_router(
    app: FastAPI,
    roles: Roles,
    transactions: Transactions,
    partitions: Partitions,
    groups: Groups,
) -> APIRouter:
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["duration"] = duration
    templates.filters["count"] = lambda number: f"{number:,}".replace(",", " ")
    templates.filters["noun"] = noun
    templates.filters["size"] = size

    @router.get("/")
    async def index() -> HTMLResponse:
        image = roles.image
        asked = all_partitions(image)
        visible = [one for one in asked if not image.topics[one.topic].internal]
        listed, failures = await transactions.everything()
        opened = sorted(
            (one for one in listed if one.age_ms is not None), key=lambda one: -(one.age_ms or 0)
        )
        rows = await partitions.statuses(visible[:PARTITIONS_READ_MAX])
        rows.sort(
            key=lambda row: (row.failure is None, -(row.lso_lag or 0), not row.under_replicated)
        )
        known_groups, group_failures = await groups.known(ROWS_MAX)
        duties = Duties(image)
        page = templates.get_template("index.html").render(
            image=image,
            version=app.version,
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
        )
        return HTMLResponse(page, headers=_HEADERS)

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        schema = app.openapi()
        page = templates.get_template("docs.html").render(
            schema=schema,
            tags=_by_tag(schema),
            base=str(request.base_url).rstrip("/"),
        )
        return HTMLResponse(page, headers=_HEADERS)

    return router


_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
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
