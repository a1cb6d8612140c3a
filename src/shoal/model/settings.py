"""All settings, with defaults that make a crawl work without any.

The string beside a type describes the setting; command help, error messages and the reference use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from shoal import __version__
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.limits import FetchLimits, LinkLimits, ParseLimits
from shoal.model.outcome import RetryRules
from shoal.model.pace import AddressPace

ADDRESS_FACTOR = 5.0  # hosts of one address that may be asked at their full rate at once
USER_AGENT = f"Shoal/{__version__}"


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """How a crawl behaves. A spider can set most of these; file, environment and flags override it."""

    rate: Annotated[float, "Requests per second and host; 0: no limit."] = 2.0
    address_rate: Annotated[
        float | None,
        "Requests per second and IP address, over all its hosts; 0: no limit; not set: 5 times crawl.rate.",
    ] = None
    burst: Annotated[int, "Requests that an idle host may get at once before the rate applies."] = 1
    per_host: Annotated[int, "Concurrent requests per host."] = 4
    concurrency: Annotated[int, "Concurrent requests in total."] = 64
    max_pages: Annotated[int, "Stop after this number of pages, over all runs of the crawl; 0: no limit."] = 0
    depth: Annotated[int | None, "Follow links up to this many links away from a start URL."] = None
    same_host: Annotated[bool, "Follow links on the hosts of the start URLs only."] = True
    follow: Annotated[str, "Follow only links whose URL matches this regular expression, anywhere in it."] = (
        ""
    )
    canonical_only: Annotated[
        bool, "Drop the items of pages whose canonical URL is another page of the crawl."
    ] = False
    robots: Annotated[bool, "Obey robots.txt."] = True
    robots_min_ttl: Annotated[
        float, "Seconds that a robots.txt is kept at least, even if its Cache-Control header says less."
    ] = 60.0
    max_crawl_delay: Annotated[
        float, "Longest Crawl-delay of a robots.txt that is kept, in seconds; a longer one counts as this."
    ] = 60.0
    allow_private: Annotated[
        bool, "Allow loopback and private addresses; fetch.allow_ranges allows some of them."
    ] = False
    user_agent: Annotated[
        str, "User-Agent header of every request; empty: Shoal, its version and crawl.contact."
    ] = ""
    contact: Annotated[
        str, "URL or e-mail address for site owners; part of the default User-Agent header."
    ] = ""
    ca_file: Annotated[
        str | None,
        "Certificate authorities (PEM) to trust besides the system's; checks cannot be turned off.",
    ] = None
    nameservers: Annotated[
        str | None,
        "DNS servers to use instead of the system's: address or address:port, comma-separated.",
    ] = None
    headers: Annotated[
        Mapping[str, str],
        "Additional headers for every request; in the environment, one 'Name: value' per line.",
    ] = field(default_factory=dict, repr=False)  # may hold a token
    cookies: Annotated[Mapping[str, str], "Cookies for the hosts of the start URLs."] = field(
        default_factory=dict, repr=False
    )
    cookie_file: Annotated[str | None, "A cookies.txt file, as browsers and curl write it."] = None
    procs: Annotated[int, "Parse processes; 0: number of cores minus one, at least one."] = 0
    max_dead: Annotated[int | None, "Exit with 2 if there are more dead letters than this."] = None
    max_crashes: Annotated[
        int, "Workers that may die with a request before it becomes a dead letter; from the third on, alone."
    ] = 6
    approximate_links: Annotated[
        int,
        "Size of a Bloom filter for a fleet's seen-set, in links: 2 bytes per link instead of 9, but 1 in"
        " 1,000 new links is lost when it is full; 0: exact.",
    ] = 0
    fsync: Annotated[bool, "Survive power loss, not only process crashes."] = False
    lease: Annotated[float, "Seconds that a worker may hold a request without a heartbeat."] = 120.0
    grace: Annotated[
        float, "Seconds to finish the requests in progress after the first Ctrl-C; the rest is released."
    ] = 6.0  # containers are killed 10 s after they were asked to stop

    @property
    def address_pace(self) -> AddressPace:
        rate = ADDRESS_FACTOR * self.rate if self.address_rate is None else self.address_rate
        return AddressPace(1 / rate if rate else 0.0, is_explicit=self.address_rate is not None)

    @property
    def sent_user_agent(self) -> str:
        """The User-Agent header: `user_agent` if it is set, else Shoal with the contact."""
        return self.user_agent or (f"{USER_AGENT} (+{self.contact})" if self.contact else USER_AGENT)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Settings of one host that differ from [crawl]; None: the same."""

    rate: float | None = None
    burst: int | None = None
    per_host: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # sent to this host only


@dataclass(frozen=True, slots=True)
class ParseSettings(ParseLimits):
    """The limits on one page, and the sandbox of spiders.

    What concerns the sandbox is decided where a spider runs: workers ignore it in the record of a crawl.
    """

    sandbox: Annotated[
        str | None,
        "How strict the sandbox of spiders is: require, prefer or off; by default require in shoal worker,"
        " else prefer.",
    ] = None
    readable: Annotated[
        tuple[str, ...],
        "Files and folders that spiders may read, besides Python, its packages and the spider's folder.",
    ] = ()
    environment: Annotated[
        tuple[str, ...],
        "Environment variables that spiders may see, besides PATH, HOME, LANG, LC_*, TZ and PYTHON*.",
    ] = ()


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """How raw pages are stored."""

    location: Annotated[
        str, "Where archived pages go: a folder, or s3://bucket/prefix; empty: the store's folder."
    ] = ""
    segment_bytes: Annotated[int, "Size at which a new segment of the archive is started."] = 1 << 30
    keep_days: Annotated[int, "Days that archived pages are kept; 0: without limit."] = 0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the workers of a fleet do for the crawls in its store. A crawl cannot change it."""

    allow_outputs: Annotated[
        tuple[str, ...],
        "Folders and addresses (postgresql://user@db/shop) that crawls may write to; in the environment one"
        " per line; empty: the folder where the worker started.",
    ] = field(default=(), repr=False)
    max_crawls: Annotated[int, "Crawls that a worker runs at once; if more have work, they take turns."] = (
        8  # each takes about 45 MB and its parse processes
    )
    record_key_file: Annotated[
        str | None,
        "A file with a secret that submit signs crawls with; a worker that has it serves no other crawls.",
    ] = None


OPERATOR_OPTIONS = frozenset({"allow_private", "ca_file", "nameservers", "cookie_file"})
"""Settings of [crawl] that a spider cannot set: they open the machine's network and files to a crawl."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, as in `shoal.toml`."""

    store: Annotated[
        str, "The store: a folder for state, archive and items, or the DSN of a fleet's Redis."
    ] = field(default="shoal-data", repr=False)  # may hold a password
    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    retry: RetryRules = field(default_factory=RetryRules)
    slowdown: SlowdownRules = field(default_factory=SlowdownRules)
    fetch: FetchLimits = field(default_factory=FetchLimits)
    links: LinkLimits = field(default_factory=LinkLimits)
    parse: ParseSettings = field(default_factory=ParseSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    hosts: Annotated[
        Mapping[str, HostSettings],
        'Settings for one host: rate, burst, per_host and headers, in a table [hosts."shop.example"].',
    ] = field(default_factory=dict)
