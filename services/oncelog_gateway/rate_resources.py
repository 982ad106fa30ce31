"""Pydantic models of REST's answer about rates over time."""

from typing import Literal

from pydantic import Field

from oncelog_gateway.resources import Resource


class RateLine(Resource):
    series: str = Field(examples=["produced_bytes"])
    name: str = Field(
        description="topic, partition, group, process, outcome or quantile; empty: all others together"
    )
    values: list[float | None] = Field(
        description="one for each of `times_ms`; null: not known, which is not zero"
    )


class RateSeries(Resource):
    series: str
    unit: str = Field(examples=["bytes/s"])
    names: str = Field(description="what its lines are named by")
    note: str


class SilentProcess(Resource):
    process: str = Field(examples=["storage 3"])
    reason: str


class RatesOverTime(Resource):
    since_ms: int | None = Field(
        description="when this gateway began to record; null: it has no reading yet"
    )
    source: Literal["gateway"] = Field(
        "gateway", description="the memory of this gateway, which a restart empties"
    )
    step_ms: int
    times_ms: list[int] = Field(description="when each step begins; the last one still runs")
    series: list[RateSeries]
    lines: list[RateLine]
    silent: list[SilentProcess] = Field(
        description="processes that told nothing when they were asked last; what they count is a gap"
    )
