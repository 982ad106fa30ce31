"""Client quotas: the entities and keys that exist, and the quota that holds for a client (KIP-13, KIP-124, KIP-612)."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

Entity = tuple[tuple[str, str | None], ...]
"""An entity as (type, name), sorted by type; the name None stands for the type's default."""
QuotaKey = str
Quotas = Mapping[Entity, Mapping[QuotaKey, float]]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
_WHOLE_MAX: Final[Mapping[QuotaKey, int]] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""The keys that take whole numbers, and their largest."""
_NAME_LENGTH_MAX: Final = 1_000


def entity_of(parts: Mapping[str, str] | Mapping[str, str | None]) -> Entity:
    return tuple(sorted(parts.items()))


def entity_fault(entity: Entity) -> str:
    """Return why no quota can be set for this entity, such as an unknown entity type; empty: it is valid."""
    kinds = [kind for kind, _ in entity]
    if not kinds:
        return "the entity is empty; name a user, a client-id or an ip"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            return f"entity type {kind!r} is not known; there are user, client-id and ip"
        if kinds.count(kind) > 1:
            return f"entity type {kind!r} stands twice"
        if name is not None and not 0 < len(name) <= _NAME_LENGTH_MAX:
            return f"the {kind} has a name of {len(name)} characters; 1 to {_NAME_LENGTH_MAX} are taken"
    if IP in kinds and len(kinds) > 1:
        return "an ip stands alone, without user and client-id"
    address = dict(entity).get(IP)
    if address is not None and not _is_address(address):
        return f"{address!r} is no IP address"
    return ""


def quota_fault(entity: Entity, key: QuotaKey, value: float | None) -> str:
    """Return why this entity cannot have this quota; empty: it can. The value None removes the quota."""
    keys = (CONNECTION_CREATION_RATE,) if dict(entity).keys() == {IP} else _CLIENT_KEYS
    if key not in keys:
        return f"quota {key!r} is not known here; there are {', '.join(keys)}"
    if value is None:
        return ""
    if not value > 0:
        return f"quota {key}={value} must be greater than 0"
    whole_max = _WHOLE_MAX.get(key)
    if whole_max is not None and not value <= whole_max:
        return f"quota {key}={value} is above {whole_max}"
    if whole_max is not None and value % 1:
        return f"quota {key}={value} cannot be a fraction"
    return ""


def quota_of(
    quotas: Quotas, user: str, client_id: str, key: QuotaKey
) -> tuple[Entity, float] | None:
    """Return the quota that holds for this client, with the entity (user, client id or both) that it is set for, by
    Kafka's order of precedence; None: no quota holds."""
    named: Mapping[str, str | None]
    for named in (
        {USER: user, CLIENT_ID: client_id},
        {USER: user, CLIENT_ID: None},
        {USER: user},
        {USER: None, CLIENT_ID: client_id},
        {USER: None, CLIENT_ID: None},
        {USER: None},
        {CLIENT_ID: client_id},
        {CLIENT_ID: None},
    ):
        value = quotas.get(entity_of(named), {}).get(key)
        if value is not None:
            sharing = {kind: user if kind == USER else client_id for kind in named}
            return entity_of(sharing), value
    return None


def ip_quota(quotas: Quotas, address: str) -> float | None:
    """Return how many connections a second this address may open; None: any number."""
    for name in (address, None):
        value = quotas.get(((IP, name),), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return value
    return None


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
