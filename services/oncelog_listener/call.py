"""One request on its way through a handler, and the connection that it came in on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Never, TypeAlias

from typing_extensions import TypeVar

from oncelog.api.v1 import types_pb2
from oncelog.protocol.messages import Schema
from oncelog.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    APIS,
    CONSUMER_GROUP_HEARTBEAT,
    END_TXN,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
)
from oncelog.security import principal
from oncelog.security.acl import CLUSTER_NAME, Operation, ResourceType
from oncelog_listener.access import REFUSALS_LOGGED_MAX, log_no_more, log_verdict
from oncelog_listener.cluster import Address, Cluster
from oncelog_listener.core.endpoints import EXTERNAL, MAIN
from oncelog_listener.sasl_session import SaslSession
from oncelog_listener.turns import TURN_ELEMENTS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

REFUSALS_MAX: Final = 100
"""The most refusals that a connection keeps. A producer has a connection of its own, so one or two are usual."""

_HARMFUL_WHEN_LATE: Final = frozenset(
    {INIT_PRODUCER_ID, OFFSET_COMMIT, TXN_OFFSET_COMMIT, CONSUMER_GROUP_HEARTBEAT}
)
"""The requests whose late copy, sent through another listener, looks like a fresh request.

Other late copies are recognised by origins, sequences or a generation, or they change nothing.
"""


ANONYMOUS: Final = str(principal.ANONYMOUS)


class Refusal(NamedTuple):
    """A note that a request of this connection was refused because it seemed to be a late copy of an earlier one (ADR
    0018). When the client repeats it, the repetition carries this note and is accepted."""

    delayed_by: types_pb2.RequestNumber
    received: int
    """The number of requests of the connection that had arrived by then: none of them can be the repetition of this
    one."""


class CloseConnection(Exception):
    """Raised to refuse a request by closing its connection, where its version has no error to answer with. The text is
    logged."""


@dataclass(slots=True)
class Session:
    """The state of one client connection: addresses, principal, login, counts of requests, and throttling."""

    peer: str
    """The client's address as host:port, for people."""
    local: Address
    """The address that the client connected to."""
    listener: str = MAIN
    """The name of the listener that the client connected to."""
    host: str = ""
    """The address that the client came from."""
    principal: str = ANONYMOUS
    """The principal of the client; ANONYMOUS without a login or a certificate."""
    sasl: SaslSession | None = None
    """The client's login, where the listener has SASL."""
    is_refused: bool = False
    """True if the connection is closed after the answer that is under way."""
    on_login: Callable[[], None] = lambda: None
    connection: int = 0
    """The number of this connection among those of this listener, from 1."""
    request_count: int = 0
    """The number of requests that were worked on, the one in progress included."""
    received_count: int = 0
    """The number of requests that have arrived, those that wait included."""
    software_name: str = ""
    software_version: str = ""
    refusals: dict[tuple[str, int], Refusal] = field(default_factory=dict)
    """The last refusal by (transactional.id, API key). The client's repetition of the request names it, and is then
    accepted."""
    doubtful_count: int = 0
    """The number of requests that came before or while this process stood still (`pause_detector.py`)."""
    fetched_bytes: int = 0
    """The size in bytes of the records in the last Fetch's answer."""
    throttle_ms: int = 0
    """The time in milliseconds for which the client is not read after the answer that is under way: it has exceeded
    a quota."""
    is_gone: bool = False
    """True if the connection is closed: nobody will read an answer."""

    def advertised(self, cluster: Cluster) -> Address:
        """Return the address at which this client is told to find this listener again, for example in Metadata.

        Unless settings say otherwise this is the address that the client connected to. That is right behind every
        port-forward that keeps the port.
        """
        settings = cluster.settings
        found = self.configured(cluster)
        if found is not None:
            return Address(*found)
        if not self.is_main(cluster) or self.is_forwarded(cluster):
            return self.local
        return Address(
            settings.advertised_host or self.local.host, settings.advertised_port or self.local.port
        )

    def configured(self, cluster: Cluster) -> tuple[str, int] | None:
        """Return the address that the settings give to clients of this listener; None: they give none."""
        if self.is_forwarded(cluster):
            return None
        found = cluster.settings.advertised.get(self.listener)
        if found is None and self.listener == EXTERNAL:
            found = cluster.settings.external_addresses.get(cluster.node_id)
        return found

    def is_forwarded(self, cluster: Cluster) -> bool:
        """True if the client came through a forwarded port of its own machine, so the addresses told to other clients
        do not work for it."""
        return cluster.settings.loopback_forwarded and ip_address(self.local.host).is_loopback

    def is_main(self, cluster: Cluster) -> bool:
        """True if the client connected to the first listener of the settings, whose address the node registers."""
        return self.listener == cluster.settings.endpoints[0].name

    def logged_in(self, principal: str) -> None:
        self.principal = principal
        self.on_login()


RequestT_co = TypeVar("RequestT_co", covariant=True, default=object)
TypesT_co = TypeVar("TypesT_co", covariant=True, default=object)


@dataclass(slots=True)
class Call(Generic[RequestT_co, TypesT_co]):
    """A Kafka request with its connection and the cluster, as its handler gets it. An EndTxnCall (`kafka_calls.pyi`)
    has the types of EndTxn."""

    api_key: int
    version: int
    client_id: str | None
    request: RequestT_co
    """The request as kio decodes it in this version."""
    schema: Schema[Any, RequestT_co, TypesT_co, Any]
    session: Session
    cluster: Cluster
    elements_left: int = TURN_ELEMENTS
    """The number of elements that may still be handled in the request's present turn."""
    is_large: bool = False
    """True if the request took more than one turn."""
    refusal_count: int = 0
    """The number of resources named by the request that were refused."""

    def is_turn_over(self, elements: int = 1) -> bool:
        """Count handled elements of a large request. True: enough for now, and the caller awaits `next_turn` to let
        other tasks run."""
        self.elements_left -= elements
        return self.elements_left < 0

    async def next_turn(self) -> None:
        self.elements_left = TURN_ELEMENTS
        self.is_large = True
        await self.cluster.turns.next()

    def may(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None,
        *,
        is_logged: bool = True,
    ) -> bool:
        """True if the client may perform the operation on the resource; `name` None: on any resource of the type.

        With `is_logged` False a refusal is not logged: the client did not ask for the resource by name.
        """
        access, session = self.cluster.access, self.session
        if not access.is_checked:
            return True
        arguments = (session.principal, session.host, operation, resource_type, name)
        verdict = access.decide(*arguments)
        if is_logged:
            if not verdict.is_allowed:
                self.refusal_count += 1
            if self.refusal_count <= REFUSALS_LOGGED_MAX:
                log_verdict(verdict, *arguments, self.api_name)
            elif self.refusal_count == REFUSALS_LOGGED_MAX + 1 and not verdict.is_allowed:
                log_no_more(session.principal, session.host, self.api_name)
        return verdict.is_allowed

    def may_cluster(self, operation: Operation, *, is_logged: bool = True) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=is_logged)

    @property
    def api_name(self) -> str:
        """The name of the request's API for logs, such as `Fetch`."""
        api = APIS.get(self.api_key)
        return api.name if api is not None else f"API {self.api_key}"

    def is_wanted(self) -> bool:
        """True if the client still waits for the answer: its connection is open, and the request is not out of date."""
        return not self.session.is_gone and not self.is_out_of_date

    @property
    def is_out_of_date(self) -> bool:
        """True if this request came before the process stood still, and is of a kind that does harm when it is done
        late. The client may have repeated it at another listener meanwhile."""
        session = self.session
        return (
            session.request_count <= session.doubtful_count and self.api_key in _HARMFUL_WHEN_LATE
        )

    def origin(self, transactional_id: str | None) -> types_pb2.RequestOrigin:
        """Return the request's origin: which start of this listener, connection and request number it is. By it the
        coordinator recognises a late copy of a request (ADR 0018)."""
        session = self.session
        origin = types_pb2.RequestOrigin(
            listener=self.cluster.listener_start,
            connection=session.connection,
            request=session.request_count,
            client_id=self.client_id or "",
            client_host=session.peer,
        )
        name = transactional_id or ""
        refusal = session.refusals.get((name, self.api_key))
        if refusal is not None and session.request_count > refusal.received:
            origin.delayed_by.CopyFrom(refusal.delayed_by)
        if self.api_key == END_TXN:
            keys = (name, ADD_PARTITIONS_TO_TXN), (name, ADD_OFFSETS_TO_TXN)
            additions = [refused for key, refused in session.refusals.items() if key in keys]
            if additions:
                origin.addition_delayed_by.CopyFrom(additions[-1].delayed_by)
        return origin

    def note_delayed(self, transactional_id: str, delayed_by: types_pb2.RequestNumber) -> None:
        """Store in the session that this request is refused as a late copy. A repetition by the client then names
        `delayed_by`, so the coordinator accepts it."""
        refusals = self.session.refusals
        refusals.pop((transactional_id, self.api_key), None)
        if len(refusals) >= REFUSALS_MAX:
            del refusals[next(iter(refusals))]
        refusals[transactional_id, self.api_key] = Refusal(delayed_by, self.session.received_count)

    @property
    def types(self) -> TypesT_co:
        """The constructors of the response's classes; each drops fields that this version of the API does not have."""
        return self.schema.response_types


AnyCall: TypeAlias = Call[Any, Any]
"""A call for the handler of its API, which is looked up by its number."""

Handler: TypeAlias = "Callable[[Call[Never, Never]], Awaitable[DataclassInstance | None]]"
"""A function that returns kio's response of the call's version; None: there is no answer (Produce with acks=0).
It takes the calls of one API."""
