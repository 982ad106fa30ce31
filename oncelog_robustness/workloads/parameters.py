"""Parameters of workloads, which come from scenario files and from seeds: each has a default and its bounds."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
ClientCount = Annotated[int, Field(ge=0, le=64)]
Partitions = Annotated[int, Field(ge=1, le=64)]
Replicas = Annotated[int, Field(ge=0, le=9)]
Sends = Annotated[int, Field(ge=1, le=1_000)]
Pause = Annotated[int, Field(ge=0, le=60_000)]
"""The longest pause, in milliseconds; the length of each pause is drawn."""
Lifetime = Annotated[int, Field(ge=0, le=3_600_000)]
"""The mean time after which a client is killed, in milliseconds; 0: never."""
Timeout = Annotated[int, Field(ge=500, le=900_000)]


class Parameters(BaseModel):
    """The base of a workload's parameters.
    Unknown names and values out of bounds are refused with pydantic's ValidationError."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Watched(Parameters):
    """The parameters of a workload whose clients are killed now and then, and whose topics are read by consumers
    all the time."""

    readers: ClientCount = 1
    """The number of readers of each isolation level."""
    seek_share: Share = 0.05
    """The share of a reader's polls after which it seeks elsewhere."""
    poll_pause_ms: Pause = 50
    life_ms: Lifetime = 8_000
    rest_ms: Pause = 2_000
    transaction_timeout_ms: Timeout = 10_000
