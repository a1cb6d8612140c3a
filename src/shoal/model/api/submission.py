"""Messages that submit crawls and seeds, and scrape one page."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

MAX_URLS = 10_000

Url = Annotated[str, Meta(max_length=8192)]
# (?!\n)$: Python takes $ alone to match before a line break, too.
NewCrawlName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]*(?!\n)$", max_length=100)]
FieldName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(?!\n)$", max_length=100)]
# One part of a path that means the same on every system; what follows the last dot chooses the format.
OutputName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*\.((jsonl|csv)(\.(gz|zst))?|sqlite|parquet)(?!\n)$",
        max_length=100,
    ),
]
SpiderName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*\.(py|toml)(:[A-Za-z_][A-Za-z0-9_]*)?(?!\n)$", max_length=200),
]


class CrawlSubmission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to crawl: URLs, or a spider by the name of its file in the folder that the operator allows."""

    urls: Annotated[list[Url], Meta(max_length=MAX_URLS)] = []
    spider: SpiderName | None = None
    arguments: dict[FieldName, Annotated[str, Meta(max_length=1000)]] = {}  # of the spider
    fields: dict[FieldName, Annotated[str, Meta(max_length=1000)]] = {}  # name and CSS, without a spider
    sitemaps: Annotated[list[Url], Meta(max_length=100)] = []
    name: NewCrawlName | None = None
    follow: Annotated[str, Meta(max_length=1000)] | None = None
    same_host: bool | None = None
    depth: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    max_pages: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    rate: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    per_host: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    robots: bool | None = None  # false needs the role admin
    contact: Annotated[str, Meta(max_length=300)] | None = None
    outputs: Annotated[list[OutputName], Meta(max_length=10)] = []
    fresh: bool = False  # start again, and forget what was fetched; needs the role admin


class SeedVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    line: int  # from 1
    url: str
    accepted: bool
    reason: str = ""


class SubmittedCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl that runs, or waits for workers."""

    crawl: str
    resumed: bool
    verdicts: list[SeedVerdict]
    accepted: int
    refused: int
    outputs: list[str] = []
    note: str = ""


class NewSeeds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    urls: Annotated[list[Url], Meta(min_length=1, max_length=MAX_URLS)]


class AddedSeeds(msgspec.Struct, frozen=True, kw_only=True):
    crawl: str
    verdicts: list[SeedVerdict]
    accepted: int
    refused: int
    added: int  # that the crawl did not know yet
    note: str = ""


class ScrapeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One page, fetched now: under the same guard, robots.txt and pace as a crawl."""

    url: Url
    format: Literal["markdown", "html", "text", "json"] = "markdown"
    fields: dict[FieldName, Annotated[str, Meta(max_length=1000)]] = {}  # name and CSS; with `json`
    timeout_s: Annotated[float, Meta(gt=0, le=90)] = 60.0


class ScrapedPage(msgspec.Struct, frozen=True, kw_only=True):
    url: str  # after redirects
    status: int
    content_type: str
    fetched_at: float
    format: str
    content: Any  # text, or an object with `json`
    title: str = ""
    redirects: list[str] = []
    problem: str = ""  # why there is no content: a status of 400 or above, a page that cannot be parsed
