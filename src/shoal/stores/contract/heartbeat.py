"""What a worker reports about itself."""

import msgspec


class CrawlActivity(msgspec.Struct, frozen=True):
    """A crawl, as one worker runs it."""

    crawl: str
    version: str  # of the spider's code: `shoal status` reports a crawl that workers run in two versions
    in_flight: int
    pages: int  # since the worker opened the crawl
    rate: float  # pages per second
    parsing: int = 0  # pages that its parse processes have


class OutputActivity(msgspec.Struct, frozen=True):
    """An output, as one worker serves it."""

    crawl: str
    output: str  # without secrets
    # "writing", "waiting" (for items), "standing by", "elsewhere", "failing", "refused"  # vocabulary: ok
    doing: str
    why: str = ""  # it is not being written
    items: int = 0  # that this worker has written


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a worker reports every few seconds."""

    worker: str
    host: str  # the machine
    pid: int
    roles: tuple[str, ...]
    shoal: str  # version
    started_at: float
    beaten_at: float
    doing: str  # "working", "writing", "waiting", "idle", "draining"
    why: str = ""  # it waits: "for the hosts' pace"
    crawls: tuple[CrawlActivity, ...] = ()
    outputs: tuple[OutputActivity, ...] = ()
    refused: dict[str, str] = {}  # by crawl: why this worker cannot serve it
