"""Everything that can be set, with the defaults that make a crawl work when nothing is.

The text beside a type says what the value does, once: help, complaints and reference show it from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from shoal import __version__
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.limits import FetchLimits, LinkLimits, ParseLimits
from shoal.model.outcome import RetryRules

USER_AGENT = f"Shoal/{__version__}"


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """How a crawl behaves. A spider may set these for itself; file, environment and flags beat it."""

    rate: Annotated[float, "Requests per second and host; 0: no limit."] = 2.0
    burst: Annotated[int, "Requests that a rested host may get at once before the rate applies."] = 1
    per_host: Annotated[int, "Requests at once, per host."] = 4
    concurrency: Annotated[int, "Requests at once, in all."] = 64
    max_pages: Annotated[int, "Stop after so many pages, over all runs of the crawl; 0: no limit."] = 0
    depth: Annotated[int | None, "Follow links this far from a start URL."] = None
    same_host: Annotated[bool, "Follow links on the hosts of the start URLs only."] = True
    follow: Annotated[str, "Follow only links whose URL matches this regular expression, anywhere in it."] = (
        ""
    )
    canonical_only: Annotated[
        bool, "Keep no items of pages that name another page of the crawl as their canonical version."
    ] = False
    robots: Annotated[bool, "Obey robots.txt."] = True
    allow_private: Annotated[bool, "Allow loopback and private addresses."] = False
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
        "Name servers to ask instead of the system's: address or address:port, with commas between.",
    ] = None
    headers: Annotated[
        Mapping[str, str], "More headers for every request; in the environment, one 'Name: value' a line."
    ] = field(default_factory=dict, repr=False)  # may hold a token
    cookies: Annotated[Mapping[str, str], "Cookies for the hosts of the start URLs."] = field(
        default_factory=dict, repr=False
    )
    cookie_file: Annotated[str | None, "A cookies.txt, as browsers and curl write it."] = None
    procs: Annotated[int, "Parse processes; 0: one less than there are cores, at least one."] = 0
    max_dead: Annotated[int | None, "Exit with 2 if more requests than that were given up."] = None
    max_crashes: Annotated[int, "Holders that may die with a request before it is given up."] = 3
    approximate_links: Annotated[
        int,
        "Links of a fleet's crawl that a Bloom filter is made for, at two bytes each instead of nine, and one"
        " in 1,000 new ones lost by then; 0: remember exactly.",
    ] = 0
    fsync: Annotated[bool, "Survive power loss, not only the death of processes."] = False
    lease: Annotated[float, "Seconds that a worker may hold a request without a sign of life."] = 120.0
    grace: Annotated[float, "Seconds for finishing what is in hand after the first Ctrl-C."] = 30.0

    @property
    def sent_user_agent(self) -> str:
        """The User-Agent header: `user_agent` if it is set, else Shoal with the contact."""
        return self.user_agent or (f"{USER_AGENT} (+{self.contact})" if self.contact else USER_AGENT)


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What is different for one host; None: as in [crawl]. Each means what it means there."""

    rate: float | None = None
    burst: int | None = None
    per_host: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # sent to this host only


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """How raw pages are kept."""

    location: Annotated[
        str, "Where archived pages go: a folder, or s3://bucket/prefix; empty: into the store's folder."
    ] = ""
    segment_bytes: Annotated[int, "Size at which a segment of the archive ends."] = 1 << 30
    keep_days: Annotated[int, "Days that archived pages are kept; 0: for ever."] = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole tree, as in `shoal.toml`."""

    store: Annotated[
        str, "The store: a folder for state, archive and items, or the address of a fleet's Redis."
    ] = field(default="shoal-data", repr=False)  # may hold a password
    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    retry: RetryRules = field(default_factory=RetryRules)
    slowdown: SlowdownRules = field(default_factory=SlowdownRules)
    fetch: FetchLimits = field(default_factory=FetchLimits)
    links: LinkLimits = field(default_factory=LinkLimits)
    parse: ParseLimits = field(default_factory=ParseLimits)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    hosts: Annotated[
        Mapping[str, HostSettings],
        'What differs for one host: rate, burst, per_host and headers, in a table [hosts."shop.example"].',
    ] = field(default_factory=dict)
