"""Messages about schedules."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.model.api.submission import CrawlSubmission

ScheduleName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(?!\n)$", max_length=100)]


class ScheduleRunInfo(msgspec.Struct, frozen=True, kw_only=True):
    tick: float
    state: str
    crawl: str
    why: str


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cron: str
    every_s: float
    timezone: str
    jitter_s: float
    overlap: str
    missed: str
    paused: bool
    again: bool
    adaptive: bool
    budget: float  # requests per day; 0: no limit
    arguments: list[str]
    next_at: float | None
    runs: list[ScheduleRunInfo]


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleInfo]


class OneSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schedule: Annotated[str, Meta(min_length=1, max_length=200)]


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A crawl that starts by itself: `cron` or `every_s`, and what to crawl."""

    name: ScheduleName
    crawl: CrawlSubmission
    cron: Annotated[str, Meta(max_length=200)] = ""
    every_s: Annotated[float, Meta(ge=0, le=31_622_400)] = 0.0
    timezone: Annotated[str, Meta(max_length=100)] = "UTC"
    jitter_s: Annotated[float, Meta(ge=0, le=604_800)] = 0.0
    overlap: Literal["skip", "queue", "replace"] = "skip"
    missed: Literal["one", "all", "skip"] = "one"
    again: bool = False  # a tick begins a new generation of one crawl, not a crawl NAME-TIME
    adaptive: bool = False  # with `again`: only pages that are due
    budget: Annotated[int, Meta(ge=0, le=10**12)] = 0  # with `adaptive`: requests per day; 0: no limit


class ChangedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused: bool = False
    removed: bool = False
