"""All settings, with defaults that make a crawl work without any.

The string beside a type describes the setting; command help, error messages and the reference use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from shoal import __version__
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.levels.ladder import AUTO, LADDER
from shoal.model.limits import MIB, FetchLimits, LinkLimits, ParseLimits
from shoal.model.outcome import RetryRules
from shoal.model.pace import AddressPace, PaceBy

ADDRESS_FACTOR = 5.0  # hosts of one address that may be asked at their full rate at once
USER_AGENT = f"Shoal/{__version__}"
REDIS_SCHEMES = ("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster")
"""URL schemes of the stores that are servers. Any other store is a folder."""


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """How a crawl behaves. A spider can set most of these; file, environment and flags override it."""

    rate: Annotated[float, "Requests per second and host; 0: no limit."] = 2.0
    address_rate: Annotated[
        float | None,
        "Requests per second and IP address, and registrable domain, over all its hosts; 0: no limit; not"
        " set: 5 times crawl.rate.",
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
    level: Annotated[
        str,
        "How pages are fetched: auto (plain, and more where a host needs it), or always plain, impersonate or"
        " browser (docs/levels.md).",
    ] = AUTO
    levels: Annotated[
        tuple[str, ...],
        "Levels that auto may use, out of plain, exit (another proxy), impersonate and browser; each only"
        " where it is available.",
    ] = LADDER
    browser_pages: Annotated[
        int, "Pages that the crawl may have rendered because auto found it necessary; 0: no limit."
    ] = 100_000
    browser_pages_per_host: Annotated[int, "The same, of one host."] = 20_000
    profile: Annotated[str, "The browser to impersonate: chrome, edge, firefox or safari."] = "chrome"
    render: Annotated[bool, "Render every page in a browser (docs/browser.md)."] = False
    http2: Annotated[bool, "Use HTTP/2 where a server has it, without impersonation."] = False
    pace_by: Annotated[
        str,
        "What rate applies to: host, site (all hosts of a registrable domain together) or address (all hosts"
        " of an IP address).",
    ] = "host"
    blocked_if: Annotated[
        tuple[str, ...],
        "Rules for responses that are blocks, by status, header, text or selector (docs/blocks.md); in the"
        " environment one per line.",
    ] = ()
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
    exit_kind: Annotated[str, "Kind of exit to use, such as residential or isp; empty: any."] = ""
    budget: Annotated[
        float, "What the traffic through exits may cost, in the currency of their prices; 0: no limit."
    ] = 0.0
    budget_gb: Annotated[float, "Traffic through exits that the crawl may use, in GB; 0: no limit."] = 0.0
    over_budget: Annotated[
        str, "What happens when the budget is spent: stop, or the kind of exits to use from then on."
    ] = "stop"
    country: Annotated[str, "Country of the exits to use, as two letters; empty: any."] = ""
    weight: Annotated[
        float, "Share of a worker that the crawl gets, relative to the other crawls that have work."
    ] = 1.0
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
        interval = site_interval = 1 / rate if rate else 0.0
        is_explicit = self.address_rate is not None
        if self.pace_by == PaceBy.ADDRESS:
            own = 1 / self.rate if self.rate else 0.0
            interval, is_explicit = (max(own, interval) if is_explicit else own), True
        return AddressPace(
            interval,
            is_explicit=is_explicit,
            by_site=self.pace_by == PaceBy.SITE,
            site_interval=site_interval,
        )

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
    blocked_if: tuple[str, ...] = ()  # in addition to those of [crawl]
    level: str | None = None
    exit_kind: str | None = None
    country: str | None = None


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
class FetchLogSettings:
    """The fetch log: one row per attempt, beside the archived pages."""

    enabled: Annotated[bool, "Log every attempt, for shoal trace, shoal sql and shoal report."] = True
    keep_days: Annotated[int, "Days that logged attempts are kept; 0: without limit."] = 90
    part_bytes: Annotated[int, "Size at which a new part of the fetch log is started."] = 16 << 20


@dataclass(frozen=True, slots=True)
class RecrawlSettings:
    """What a crawl keeps for its next generation, and how that uses it."""

    keep: Annotated[
        int, "Earlier generations that are kept, for conditional requests and shoal diff; 0: none."
    ] = 1
    skip_unchanged: Annotated[
        bool, "Take items and links of a page that has not changed from the last generation, unparsed."
    ] = True
    item_times: Annotated[
        bool, "Add the fields first_seen, last_seen and changed_at to items; recrawl.keep must not be 0."
    ] = False
    after: Annotated[
        float,
        "With --again: begin a new generation only if the last one began before this time, in epoch seconds;"
        " 0: always. Schedules set it.",
    ] = 0.0
    adaptive: Annotated[
        bool, "In a new generation, ask only for pages that are due; the others are as they were."
    ] = False
    budget: Annotated[
        float, "Requests per day for known pages, with recrawl.adaptive; 0: all that are due."
    ] = 0.0
    first_interval: Annotated[float, "Seconds between the first two checks of a page."] = 86_400.0
    shortest_interval: Annotated[float, "Seconds between two checks of a page, at least."] = 3_600.0
    longest_interval: Annotated[float, "Seconds between two checks of a page, at most."] = 2_592_000.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the workers of a fleet do for the crawls in its store. A crawl cannot change it."""

    allow_outputs: Annotated[
        tuple[str, ...],
        "Folders and addresses (postgresql://user@db/shop) that crawls may write to; in the environment one"
        " per line; empty: the folder where the worker started.",
    ] = field(default=(), repr=False)
    allow_seeds: Annotated[
        tuple[str, ...],
        "Databases that schedules of a shared store may read start URLs from, spelled as in the schedule; in"
        " the environment one per line.",
    ] = field(default=(), repr=False)
    max_crawls: Annotated[int, "Crawls that a worker runs at once; if more have work, they take turns."] = (
        200  # each takes about a megabyte; parse processes are shared
    )
    procs: Annotated[int, "Parse processes of a worker, over all crawls; 0: twice the number of cores."] = 0
    max_spiders: Annotated[
        int, "Spiders that a worker keeps loaded; if crawls need more, they take turns."
    ] = 8  # each is a process of about 40 MB
    record_key_file: Annotated[
        str | None,
        "A file with a secret that submit signs crawls with; a worker that has it serves no other crawls.",
    ] = None


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The exits of this process. Workers use their own, and ignore those in the record of a crawl."""

    list: Annotated[
        tuple[str, ...],
        "Exits: proxy URLs with options, or files with one per line; in the environment one per line; empty:"
        " requests leave directly.",
    ] = field(default=(), repr=False)  # has passwords
    rotation: Annotated[
        str,
        "When the exit of a host changes: turn (every time), request (and no connection is used twice), timed"
        " (after proxies.sticky seconds) or worker (if blocked).",
    ] = "turn"
    sticky: Annotated[
        float, "Seconds for which a host keeps its exit, with rotation timed, or its session at a gateway."
    ] = 300.0
    connections: Annotated[
        int, "Connections at once per exit and worker; with rotation request it is always 1."
    ] = 4
    slice: Annotated[
        str,
        "Which part of the list this worker uses, such as 2/4: the second of four; auto: the running workers"
        " divide it; empty: all of it.",
    ] = ""
    cool_off: Annotated[
        float, "Seconds for which an unhealthy exit rests before it is tried again; doubles each time."
    ] = 30.0
    patience: Annotated[
        float,
        "Seconds for which requests wait while no exit works, before the crawl ends (exit code 12); a minute"
        " if none has ever worked. Workers wait without limit.",
    ] = 3_600.0
    when_refused: Annotated[
        str,
        "What a host that answers 403 often gets: rotate (another exit for every request, or a sticky one), a"
        " kind of exits, or off: no change.",
    ] = "rotate"


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """When alerts are raised, where they are sent and what happens then. Workers use their own settings."""

    enabled: Annotated[bool, "Evaluate alerts while a crawl or a worker runs."] = True
    every: Annotated[float, "Seconds between two evaluations."] = 2.5
    window: Annotated[float, "Seconds over which rates and percentiles are computed."] = 300.0
    wait: Annotated[float, "Seconds for which a condition has to hold before its alert is raised."] = 5.0
    calm: Annotated[float, "Seconds for which a condition has to be over before its alert is cleared."] = 15.0
    min_attempts: Annotated[int, "Attempts in the window below which rates and percentiles mean nothing."] = (
        50
    )
    queue_depth: Annotated[int, "Requests waiting, over all crawls, above which an alert is raised."] = (
        100_000
    )
    success: Annotated[float, "Share of successful attempts below which an alert is raised."] = 0.85
    host_success: Annotated[
        float, "Share of successful attempts at one host below which an alert is raised."
    ] = 0.5
    p95: Annotated[float, "Seconds that 95 % of the requests should take at most."] = 5.0
    dead_letters: Annotated[
        float, "Share of requests that end as dead letters above which an alert is raised."
    ] = 0.05
    bandwidth: Annotated[float, "Share of the budget for exits above which an alert is raised."] = 0.8
    error_budget: Annotated[
        float, "Share of all requests of a crawl that may end as dead letters over its whole life."
    ] = 0.05
    store_memory: Annotated[
        float, "Share of the memory limit of the store's server above which an alert is raised."
    ] = 0.9
    disk_free: Annotated[
        int, "Free bytes on the disk of a store folder below which an alert is raised; 0: never."
    ] = 1 << 30
    stalled: Annotated[float, "Seconds without progress after which a stage counts as stalled."] = 15.0
    actions: Annotated[tuple[str, ...], "What alerts do by themselves: pause_host, or none."] = (
        "pause_host",
    )
    pause: Annotated[float, "Seconds for which a host is paused whose requests fail."] = 600.0
    webhooks: Annotated[
        tuple[str, ...],
        "URLs that raised and cleared alerts are posted to, as JSON; in the environment one per line.",
    ] = field(default=(), repr=False)  # their path may be a secret
    webhook_key_file: Annotated[
        str | None, "A file with the key that signs what is posted: header X-Shoal-Signature, HMAC-SHA256."
    ] = None


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Traces for an OpenTelemetry collector. Workers use their own settings."""

    endpoint: Annotated[
        str, "Where traces are sent, OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces; empty: nowhere."
    ] = field(default="", repr=False)  # may hold a token
    sample: Annotated[float, "Share of the attempts that are traced; failed ones always are."] = 0.05


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    """The browsers of this process, and what one page may use. A crawl cannot change it."""

    path: Annotated[str, "Program of the browser; empty: the first Chromium that is installed."] = ""
    sandbox: Annotated[
        str, "Chromium's own sandbox: on, or off, which leaves pages with the rights of the browser's user."
    ] = "on"
    network: Annotated[
        str,
        "Network of the browser: own (a namespace with nothing but the egress in it), or shared, which relies"
        " on the flags of the browser alone.",
    ] = "own"
    pages: Annotated[int, "Pages that are rendered at once; one browser per 4 of them."] = 4
    page_s: Annotated[float, "Seconds for one page; then it is captured as it is."] = 30.0
    wire_bytes: Annotated[int, "Bytes that one page may load, with all that belongs to it."] = 64 * MIB
    memory_bytes: Annotated[
        int, "Memory of one renderer; above it, the renderer is ended. A browser with more is replaced."
    ] = 1024 * MIB
    processes: Annotated[int, "Processes of one browser; with more, it is replaced."] = 64
    nodes: Annotated[int, "Elements of a page."] = 200_000
    dom_bytes: Annotated[int, "Bytes of a rendered page."] = 32 * MIB
    navigations: Annotated[int, "How often a page may reload itself before it is captured."] = 10
    popups: Annotated[int, "Windows that a page may open; each is closed at once."] = 5
    context_pages: Annotated[
        int, "Pages of one host that share a cache and storage; 1: each page has a separate one."
    ] = 1
    context_s: Annotated[float, "Seconds for which they do."] = 600.0
    browser_pages: Annotated[int, "Pages after which a browser is replaced."] = 200
    idle_s: Annotated[float, "Seconds without a page after which a browser is closed."] = 60.0


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
    fetch_log: FetchLogSettings = field(default_factory=FetchLogSettings)
    recrawl: RecrawlSettings = field(default_factory=RecrawlSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    proxies: ProxySettings = field(default_factory=ProxySettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    hosts: Annotated[
        Mapping[str, HostSettings],
        "Settings for one host: rate, burst, per_host, headers, blocked_if, level, exit_kind and country, in"
        ' a table [hosts."shop.example"].',
    ] = field(default_factory=dict)
