"""Pydantic models of REST's answer about the cluster's health: whether all is well, and what is wrong."""

from typing import Final, Literal

from pydantic import Field

from oncelog.ids import Millis
from oncelog_gateway.core.overview import Verdict
from oncelog_gateway.core.trouble import Check, Trouble
from oncelog_gateway.resources import Resource, resource_of

_SEVERITIES: Final = {"bad": "act", "warn": "look"}


class ClusterTrouble(Resource):
    check: Check
    severity: Literal["act", "look"] = Field(
        description="`act`: somebody waits for good; `look`: it may pass"
    )
    subject: str = Field(examples=["orders-0"])
    what: str = Field(description="what stands behind the subject in a sentence")
    since_ms: int | None = Field(description="null: not known")
    age_ms: int | None
    is_at_least: bool = Field(description="it was so already when this gateway began to look")
    to_do: str
    command: str = Field(description="it changes nothing: it shows more, or what it would do")
    groups: list[str] = Field(description="consumer groups that it blocks, three at most")
    page: str = Field(description="of the console")


class ClusterHealth(Resource):
    healthy: bool
    verdict: str = Field(description="a sentence: the worst, or what was looked at")
    troubles: list[ClusterTrouble] = Field(
        description="the worst first; of one kind at most five, and one that counts the others"
    )
    looked_at: dict[Check, str] = Field(
        description="what was found of each check that no trouble names"
    )


def health_of(verdict: Verdict, now: Millis) -> ClusterHealth:
    return ClusterHealth(
        healthy=not verdict.troubles,
        verdict=verdict.text,
        troubles=[_shown(one, now) for one in verdict.troubles],
        looked_at=dict(verdict.looked_at),
    )


def _shown(one: Trouble, now: Millis) -> ClusterTrouble:
    age_ms, is_at_least = one.since
    return resource_of(
        ClusterTrouble,
        one,
        severity=_SEVERITIES[one.look],
        since_ms=None if age_ms is None else now - age_ms,
        age_ms=age_ms,
        is_at_least=is_at_least,
    )
