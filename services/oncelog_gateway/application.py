"""Builds the gateway's FastAPI application: the routes, errors as problems (RFC 9457), and the middleware that every
request passes.
"""

from importlib.metadata import version
from typing import Final

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route

from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.runtime.clock import Clock
from oncelog.telemetry.history import History
from oncelog_gateway.access import Access
from oncelog_gateway.access_guard import AccessGuard, only_as_guarded, with_roles
from oncelog_gateway.acts import Acts
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.console import console_router
from oncelog_gateway.console_pages import Explained, Pages, Views
from oncelog_gateway.core.topic_configs import OpenApi
from oncelog_gateway.explanations import Explanations
from oncelog_gateway.groups import Groups
from oncelog_gateway.head_requests import HeadAsGet
from oncelog_gateway.image_watch import ImageWatch
from oncelog_gateway.metrics import Metrics, ReadMetrics
from oncelog_gateway.nodes import Nodes
from oncelog_gateway.operators import Operators
from oncelog_gateway.overviews import Overviews
from oncelog_gateway.partitions import Partitions
from oncelog_gateway.problems import Problem, install
from oncelog_gateway.producers import Producers
from oncelog_gateway.prometheus_history import PrometheusHistory
from oncelog_gateway.query_check import only_known_parameters
from oncelog_gateway.rate_recorder import RateRecorder
from oncelog_gateway.rates import Rates
from oncelog_gateway.reassignments import Reassignments
from oncelog_gateway.record_access import RecordAccess
from oncelog_gateway.record_writing import RecordWriter
from oncelog_gateway.records import Records
from oncelog_gateway.replica_moves import ReplicaMoves
from oncelog_gateway.request_guard import RequestGuard
from oncelog_gateway.roles import Roles
from oncelog_gateway.routes.audit import audit_router
from oncelog_gateway.routes.cluster import cluster_router, probes_router
from oncelog_gateway.routes.ending import ending_router
from oncelog_gateway.routes.explain import explain_router
from oncelog_gateway.routes.features import Features, features_router
from oncelog_gateway.routes.groups import groups_router
from oncelog_gateway.routes.hanging import hanging_router, prepared_router
from oncelog_gateway.routes.nodes import (
    nodes_router,
    reassignments_router,
    replica_moves_router,
)
from oncelog_gateway.routes.rates import rates_router
from oncelog_gateway.routes.records import records_router
from oncelog_gateway.routes.scrape import scrape_router
from oncelog_gateway.routes.sinks import sinks_router
from oncelog_gateway.routes.timelines import timelines_router
from oncelog_gateway.routes.tokens import tokens_router
from oncelog_gateway.routes.topics import (
    partition_router,
    partitions_router,
    topic_alterations_router,
    topic_changes_router,
    topics_router,
)
from oncelog_gateway.routes.transactions import transactions_router
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.sinks import Sinks
from oncelog_gateway.timelines import Timelines
from oncelog_gateway.tokens import Tokens
from oncelog_gateway.topic_changes import TopicChanges
from oncelog_gateway.topic_writers import TopicWriters
from oncelog_gateway.traces import TracedRequests
from oncelog_gateway.transactions import Transactions
from oncelog_gateway.waiting_groups import WaitingGroups
from oncelog_gateway.ways_in import NO_WAYS_IN, WaysIn

_DESCRIPTION: Final = (
    "Look at transactions, partitions, topics, groups and nodes of an oncelog cluster, end transactions safely, "
    "and move what nodes do to others. "
    "Errors are RFC 9457 problems with Kafka's error name. Times are milliseconds."
)


_OF_EVERY_ROUTE: Final = [Depends(only_as_guarded), Depends(only_known_parameters)]


class _AnyText(PathConvertor):
    """Converts the path parameter `{id:path}`. Starlette's own ends at a line break, which a transactional id or a
    group may have.
    """

    regex = "(?s:.*)"


register_url_convertor("path", _AnyText())


def create_app(
    settings: GatewaySettings,
    metadata: MetadataFollower,
    directory: Directory,
    clock: Clock,
    read_metrics: ReadMetrics = lambda: (),
    history: History | None = None,
    ways_in: WaysIn = NO_WAYS_IN,
    recorder: RateRecorder | None = None,
) -> FastAPI:
    """Return the FastAPI application with all routes and middleware. It starts nothing and sends nothing to others.
    `read_metrics` reads metrics of other roles in this process. `ways_in` are the logins besides API tokens.
    """
    roles = Roles(metadata, directory, settings.call_timeout_ms)
    audit = AuditLog(settings.audit_path, clock)
    # An empty history is false, and the one that fills later is the one to show.
    rates = _rates(recorder or RateRecorder(metadata, directory, clock), clock, settings)
    views = _views(roles, audit, History() if history is None else history, clock, settings, rates)
    transactions, partitions, groups = views.transactions, views.partitions, views.groups
    changes, waiting = TopicChanges(roles, audit), WaitingGroups(partitions, groups)
    operators = Operators(settings.trusted_proxies)
    access = Access(settings, ways_in, metadata, clock, roles)
    record_access = RecordAccess(metadata, settings)
    metrics = Metrics(read_metrics)
    app = _bare_app()
    pages = Pages(app, roles, views, settings, clock)
    routers = (
        # Before the paths that take any id: the first that fits a path is the one that was meant.
        ending_router(transactions, operators, waiting.would_read_on),
        timelines_router(views.timelines, settings.event_streams_max),
        transactions_router(roles, transactions),
        explain_router(views.explanations),
        hanging_router(roles, partitions),
        prepared_router(transactions),
        partitions_router(roles, partitions),
        partition_router(roles, partitions, transactions),
        topics_router(roles, views.rates),
        rates_router(views.rates),
        records_router(views.records, RecordWriter(roles, audit, clock), record_access, operators),
        topic_changes_router(changes, operators),
        topic_alterations_router(roles, changes, operators),
        groups_router(groups, operators),
        replica_moves_router(ReplicaMoves(roles, audit), operators),
        nodes_router(views.nodes, operators),
        reassignments_router(Reassignments(roles, audit), operators),
        sinks_router(views.sinks, operators),
        tokens_router(Tokens(roles, audit, clock), operators),
        features_router(Features(roles, audit), operators),
        audit_router(views.acts),
        cluster_router(roles, views.overviews, clock),
        probes_router(roles),
        scrape_router(roles, transactions, partitions, groups, metrics, settings),
        console_router(pages, access, record_access, operators),
    )
    for router in routers:
        app.include_router(router, dependencies=_OF_EVERY_ROUTE)
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]
    install(app, routes, lambda detail, status: _missing(pages, detail, status))
    app.add_middleware(TracedRequests)
    routes += [route for route in app.routes if isinstance(route, Route)]
    _guard(app, routes, access, operators, audit, metrics, settings)
    _document_problems(app)
    return app


def _guard(
    app: FastAPI,
    routes: list[Route],
    access: Access,
    operators: Operators,
    audit: AuditLog,
    metrics: Metrics,
    settings: GatewaySettings,
) -> None:
    """Add the middleware that each request passes before its route: access, then (outside of it) Host, Origin and
    counting, then HEAD as GET. The one that is added last runs first.
    """
    app.add_middleware(
        AccessGuard,
        access=access,
        routes=with_roles(routes),
        operators=operators,
        audit=audit,
        metrics_without_login=settings.metrics_without_login,
    )
    app.add_middleware(RequestGuard, metrics=metrics, settings=settings)
    app.add_middleware(HeadAsGet)


def _bare_app() -> FastAPI:
    return FastAPI(
        title="oncelog",
        description=_DESCRIPTION,
        version=version("oncelog"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )


def _missing(pages: Pages, detail: str, status: int) -> HTMLResponse:
    return pages.missing("", Explained(None, detail, status=status))


def _views(
    roles: Roles,
    audit: AuditLog,
    history: History,
    clock: Clock,
    settings: GatewaySettings,
    rates: Rates,
) -> Views:
    transactions = Transactions(roles, audit, clock, settings.trace_url)
    partitions = Partitions(roles, transactions, clock)
    groups = Groups(roles, audit, transactions, partitions, clock)
    rates.record_groups(groups, roles)
    sinks = Sinks(roles, audit)
    return Views(
        transactions,
        partitions,
        groups,
        sinks,
        Timelines(roles, history),
        Explanations(roles, transactions, partitions, groups, sinks, history, clock),
        Producers(roles, transactions),
        Nodes(roles, audit),
        Acts(settings.audit_path),
        Records(roles, transactions),
        Overviews(roles, transactions, partitions, groups, ImageWatch(roles.metadata, clock)),
        TopicWriters(roles, transactions),
        rates,
    )


def _rates(recorder: RateRecorder, clock: Clock, settings: GatewaySettings) -> Rates:
    url = settings.prometheus_url
    return Rates(recorder, clock, PrometheusHistory(url) if url else None)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _document_problems(app: FastAPI) -> None:
    """Add the schema of `Problem` to the application's OpenAPI. Routes refer to it by name, and FastAPI itself adds
    only the models that routes return.
    """
    generate = app.openapi

    def openapi() -> OpenApi:
        if app.openapi_schema is None:
            schema = generate()
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
