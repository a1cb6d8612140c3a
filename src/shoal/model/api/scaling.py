"""Messages about the number of workers."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ScaleQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds for each stage, and the seconds in which its queue should be empty."""

    min: Annotated[int, Meta(ge=0, le=100_000)] = 1
    max: Annotated[int, Meta(ge=1, le=100_000)] = 16
    drain_s: Annotated[float, Meta(gt=0, le=1e9)] = 300.0


class StageScale(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: a role, and for fetching a pool. Rates are per second; null: no limit, or not known."""

    role: str
    pool: str
    queued: int
    inflow_per_s: float
    drained_per_s: float
    ceiling_per_s: float | None
    worker_rate_per_s: float | None
    workers: int
    wanted: int
    limit: str
    why: str


class ScaleList(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers each stage needs. `workers`: those that have every role."""

    workers: int
    stages: list[StageScale]
