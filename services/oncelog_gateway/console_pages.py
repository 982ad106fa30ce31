"""The common parts of all pages of the console: the objects that they read from, their rendering, and their errors."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.runtime.clock import Clock
from oncelog.wording import counted, noun
from oncelog_gateway.access import CALLER
from oncelog_gateway.acts import Acts
from oncelog_gateway.console_numbers import digits, thin_digits
from oncelog_gateway.console_values import axis_time, moment
from oncelog_gateway.console_values import clock as clock_words
from oncelog_gateway.core.endings import (
    abort_command,
    complete_command,
    terminate_command,
)
from oncelog_gateway.core.wording import duration, precise_duration, rate, size
from oncelog_gateway.explanations import Explanation, Explanations
from oncelog_gateway.group_reading import holder_of
from oncelog_gateway.groups import Groups
from oncelog_gateway.nodes import Nodes
from oncelog_gateway.one_reading import one_reading
from oncelog_gateway.overviews import Overviews
from oncelog_gateway.partitions import Partitions
from oncelog_gateway.problems import status_of
from oncelog_gateway.producers import Producers
from oncelog_gateway.rates import Rates
from oncelog_gateway.record_pace import Turns
from oncelog_gateway.records import Records
from oncelog_gateway.resources import PartitionStatus
from oncelog_gateway.roles import Roles
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.sinks import Sinks
from oncelog_gateway.subjects import Kind, SeveralKinds
from oncelog_gateway.time_budget import time_budget
from oncelog_gateway.timelines import Timelines
from oncelog_gateway.topic_writers import TopicWriters
from oncelog_gateway.transactions import Transactions

PARTITIONS_READ_MAX: Final = 2_000
ROWS_MAX: Final = 100
OVERVIEW_ROWS_MAX: Final = 10
"""Rows of each list on the overview at most; the list's own page has all."""
PAGE_DIGITS_MAX: Final = 6
LISTS: Final = (
    ("/transactions", "all transactional ids"),
    ("/partitions", "all partitions"),
    ("/groups", "all groups"),
    ("/topics", "all topics"),
)
T = TypeVar("T")
TEMPLATES: Final = Path(__file__).parent / "templates"


class Views(NamedTuple):
    """The objects that the console's pages read from, one for each kind of thing."""

    transactions: Transactions
    partitions: Partitions
    groups: Groups
    sinks: Sinks
    timelines: Timelines
    explanations: Explanations
    producers: Producers
    nodes: Nodes
    acts: Acts
    records: Records
    overviews: Overviews
    writers: TopicWriters
    rates: Rates


class Pages:
    """Renders the console's pages from templates, and answers their errors as pages."""

    def __init__(
        self, app: FastAPI, roles: Roles, views: Views, settings: GatewaySettings, clock: Clock
    ) -> None:
        self.app = app
        self.roles = roles
        self.views = views
        self.settings = settings
        self.clock = clock
        self._templates = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["duration"] = duration
        self._templates.filters["precise_duration"] = precise_duration
        self._templates.filters["digits"] = digits
        self._templates.filters["thin_digits"] = thin_digits
        self._templates.filters["clock"] = clock_words
        self._templates.filters["moment"] = lambda time_ms: moment(time_ms)[:19]
        self._templates.filters["noun"] = noun
        self._templates.filters["counted"] = lambda count, one: digits(counted(count, one))
        self._templates.filters["size"] = lambda size_bytes: digits(size(size_bytes))
        self._templates.filters["rate"] = lambda number: digits(rate(number))
        self._templates.filters["axis_time"] = axis_time
        self._templates.filters["holder"] = holder_of
        self._templates.filters["abort_command"] = _abort_command
        self._templates.filters["terminate_command"] = terminate_command
        self._templates.filters["complete_command"] = complete_command

    def page(self, template: str, here: str, /, **values: object) -> HTMLResponse:
        """Render a template as a page. `here` is the path of the navigation's entry that is shown as current."""
        return HTMLResponse("".join(self._parts(template, here, values)))

    async def page_in_turns(
        self, turns: Turns, template: str, here: str, /, **values: object
    ) -> HTMLResponse:
        """Render a page with many rows. `turns` lets other tasks of the event loop run in between; `page` renders
        without a pause.
        """
        parts = []
        for part in self._parts(template, here, values):
            parts.append(part)
            await turns.next()
        return HTMLResponse("".join(parts))

    def _parts(self, template: str, here: str, values: dict[str, object]) -> Iterator[str]:
        values.setdefault("subject", "")
        values.setdefault("events", "")
        return self._templates.get_template(template).generate(
            version=self.app.version, here=here, caller=CALLER.get(), **values
        )

    async def explained(self, subject: str, kind: Kind | None) -> "Explained":
        try:
            return Explained(await self.views.explanations.explain(subject, kind))
        except SeveralKinds as error:
            return Explained(None, error.message, error.kinds)
        except KafkaError as error:
            return Explained(None, error.message, status=status_of(error.error_code))

    def missing(self, subject: str, explained: "Explained") -> HTMLResponse:
        links = self._lists_for(subject) if explained.found is None else []
        page = self.page("explain.html", "", subject=subject, explained=explained, links=links)
        page.status_code = explained.status
        return page

    def _lists_for(self, subject: str) -> list[tuple[str, str]]:
        """Return links (URL, text) for a name that is not found: topics that the name contains, and the lists of all
        things.
        """
        topics = self.roles.image.topics
        names = (subject, subject.rpartition("-")[0], subject.rpartition("@")[0].rpartition("-")[0])
        found = [
            (f"/topic?{urlencode({'name': name})}", f"topic {name}")
            for name in dict.fromkeys(names)
            if name in topics
        ]
        return [*found, *LISTS]

    def route(self) -> type[APIRoute]:
        """Return the route class of all pages. It limits an answer's calls to other roles to two seconds, and answers
        errors as HTML pages.
        """
        missing = self.missing

        class PageRoute(APIRoute):
            def get_route_handler(self) -> Callable[[Request], Coroutine[object, object, Response]]:
                handle = super().get_route_handler()

                async def handled(request: Request) -> Response:
                    subject = request.query_params.get("id", "")
                    with time_budget(), one_reading():
                        try:
                            return await handle(request)
                        except KafkaError as error:
                            return missing(
                                subject,
                                Explained(
                                    None,
                                    error.message or error.error_code.name,
                                    status=status_of(error.error_code),
                                ),
                            )
                        except RequestValidationError as error:
                            wrong = "; ".join(
                                f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()[:5]
                            )
                            status = HTTPStatus.UNPROCESSABLE_ENTITY
                            return missing(subject, Explained(None, wrong, status=status))

                return handled

        return PageRoute


class Steps(NamedTuple):
    """The numbers of the first and the last row that a page of a list shows, and links to the pages before and after
    it; None where there are none.
    """

    first: int
    last: int
    before: str | None
    after: str | None

    @classmethod
    def of(
        cls, number: int, total: int, filters: Mapping[str, str], rows_max: int = ROWS_MAX
    ) -> "Steps":
        first, last = (number - 1) * rows_max + 1, min(number * rows_max, total)

        def link(page: int) -> str:
            return "?" + urlencode({**{k: v for k, v in filters.items() if v}, "page": page})

        return cls(
            first,
            last,
            link(number - 1) if number > 1 else None,
            link(number + 1) if last < total else None,
        )


def page_number(text: str) -> int:
    """Return the page number that a text says, from 1 on; a text that is no number means the first page."""
    is_number = text.isdecimal() and len(text) <= PAGE_DIGITS_MAX
    return max(int(text), 1) if is_number else 1


def rows_of(rows: Sequence[T], number: int) -> Sequence[T]:
    return rows[(number - 1) * ROWS_MAX : number * ROWS_MAX]


def _abort_command(row: PartitionStatus) -> str:
    """Return the command that aborts the hanging transaction at the partition's last stable offset."""
    holder = row.lso_holder
    assert holder is not None, (row.topic, row.partition)
    return abort_command(
        Partition(row.topic, row.partition), holder.start_offset, holder.producer_epoch
    )


class Explained(NamedTuple):
    """The answer of `explain` about a subject, or the reason why there is none, for a page to show."""

    found: Explanation | None
    problem: str = ""
    kinds: Sequence[Kind] = ()
    """Kinds to choose from, when things of several kinds have the name."""
    status: int = HTTPStatus.OK
