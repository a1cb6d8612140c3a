"""What the operator of a worker allows the crawls of its store to do on its machine.

The record of a crawl asks, the worker answers. Both have to agree: a worker that may connect to private
addresses does so only for a crawl that asks for it, and a crawl that asks gets nothing from a worker that
does not allow it. Such a crawl is refused and not run with less: its requests would become dead letters,
and another worker may allow them.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from shoal.model.configuration.address_ranges import Network, address_ranges, is_covered
from shoal.model.configuration.output_patterns import is_address
from shoal.model.settings import BrowserSettings, ProxySettings, Settings, TracingSettings
from shoal.stores.contract.places import NO_SERVERS, Places, pattern_for
from shoal.stores.contract.record_reader import read_record_key


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRules:
    places: Places = NO_SERVERS
    ranges: tuple[Network, ...] = ()  # loopback and private addresses
    ca_file: str | None = None
    nameservers: str | None = None
    proxies: ProxySettings = field(default_factory=ProxySettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    record_key: bytes = field(default=b"", repr=False)  # empty: records need no signature

    @classmethod
    def of(cls, settings: Settings, *, own: tuple[str, ...] = ()) -> "WorkerRules":
        """Return the rules of a worker's settings; `own`: outputs that the same command has submitted."""
        patterns = settings.worker.allow_outputs
        if settings.archive.location:  # the operator has named it here, too
            own = (*own, settings.archive.location)
        if own:
            patterns = (*(patterns or (".",)), *map(pattern_for, own))
        return cls(
            places=Places(patterns),
            ranges=address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private),
            ca_file=settings.crawl.ca_file,
            nameservers=settings.crawl.nameservers,
            proxies=settings.proxies,
            browser=settings.browser,
            tracing=settings.tracing,
            record_key=read_record_key(settings.worker.record_key_file),
        )

    def refusal(self, settings: Settings) -> str:
        """Return why a crawl with these settings is not served here; empty: it is."""
        wanted = address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private)
        if closed := [str(network) for network in wanted if not is_covered(network, self.ranges)]:
            return (
                f"the crawl asks for private addresses ({', '.join(closed)}), and this worker does not allow"
                " them: start it with --allow-private, or set fetch.allow_ranges"
            )
        for name in ("ca_file", "nameservers"):
            asked, own = getattr(settings.crawl, name), getattr(self, name)
            if asked not in (None, own):
                return (
                    f"the crawl asks for crawl.{name} = {asked!r}, and this worker has {own!r}: set it in the"
                    f" worker's shoal.toml or SHOAL_CRAWL_{name.upper()}, or submit the crawl without it"
                )
        location = settings.archive.location
        if location and not is_address(location):
            location = str(Path(location).absolute())
        return self.places.refusal(location, what="archive.location") if location else ""

    def apply(self, settings: Settings) -> Settings:
        """Return the settings to run a crawl with: authorities, name servers, exits and browsers are the
        worker's."""
        crawl = replace(settings.crawl, ca_file=self.ca_file, nameservers=self.nameservers, cookie_file=None)
        settings = replace(settings, tracing=self.tracing)
        return replace(settings, crawl=crawl, proxies=self.proxies, browser=self.browser)
