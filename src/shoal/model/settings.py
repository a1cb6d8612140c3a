"""Everything that can be set, with the defaults that make a crawl work when nothing is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal import __version__
from shoal.model.limits import FetchLimits, LinkLimits, ParseLimits
from shoal.model.outcome import RetryRules
from shoal.model.slowdown import SlowdownRules

USER_AGENT = f"Shoal/{__version__} (+https://shoal.example/bot)"


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    rate: float = 2.0  # requests per second and host; 0: unlimited
    burst: int = 1  # requests a rested host may get at once before the rate applies
    per_host: int = 4  # requests out at once, per host
    concurrency: int = 64  # requests out at once, in all
    max_pages: int = 0  # 0: no end
    depth: int | None = None  # links followed from a seed; None: no end
    same_host: bool = True  # follow links to the hosts of the seeds only
    follow: str = ""  # regular expression a link must match, anywhere in the URL
    robots: bool = True
    allow_private: bool = False  # loopback and private addresses
    user_agent: str = USER_AGENT
    ca_file: str | None = None  # certificate authorities trusted besides the system's
    nameservers: str | None = None  # "address" or "address:port", with commas between; None: the system's
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a token
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)  # for the hosts of the seeds
    cookie_file: str | None = None  # cookies.txt, as browsers and curl write it
    procs: int = 0  # parse children; 0: one less than the machine's cores, at least one
    max_dead: int | None = None  # dead letters that still count as success; None: any number
    max_crashes: int = 3
    fsync: bool = False  # survive power loss, not only the death of processes
    lease: float = 120.0  # seconds a worker may hold a request
    grace: float = 30.0  # seconds for finishing what is in hand after the first Ctrl-C


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What is different for one host; None: as in [crawl]."""

    rate: float | None = None
    burst: int | None = None
    per_host: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # sent to this host only


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    segment_bytes: int = 1 << 30
    keep_days: int = 0  # 0: for ever


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole tree, as in `shoal.toml`."""

    store: str = "shoal-data"
    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    retry: RetryRules = field(default_factory=RetryRules)
    slowdown: SlowdownRules = field(default_factory=SlowdownRules)
    fetch: FetchLimits = field(default_factory=FetchLimits)
    links: LinkLimits = field(default_factory=LinkLimits)
    parse: ParseLimits = field(default_factory=ParseLimits)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    hosts: Mapping[str, HostSettings] = field(default_factory=dict)  # by host key: name, and port if unusual
