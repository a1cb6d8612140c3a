"""A submission as what `shoal crawl` or `shoal submit` is started with. Pure.

A message may come from anyone who has a token, so it can say less than a command line. Spiders are named,
from a folder that the operator allows, and never sent. Addresses, certificates, proxies and other settings of
the operator stay as they are. Outputs are plain file names.
"""

from collections.abc import Sequence
from pathlib import Path

from shoal.fetch.http.guard import Guard
from shoal.model.api.problem import ApiError
from shoal.model.api.roles import Role
from shoal.model.api.submission import CrawlSubmission, SeedVerdict
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import Failure
from shoal.model.settings import Settings
from shoal.model.start_url import start_url
from shoal.model.url import host_key


def judge_seeds(urls: Sequence[str], settings: Settings) -> list[SeedVerdict]:
    """Return a verdict for each line: the URL in canonical form, or why it is not accepted."""
    guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
    seen: set[str] = set()
    verdicts = []
    for number, text in enumerate(urls, 1):
        try:
            url = start_url(text.strip())
            if isinstance(refused := guard.origin(url), Failure):
                raise Rejected(refused.reason)
            if url in seen:
                raise Rejected("the same as an earlier line")
            seen.add(url)
            verdicts.append(SeedVerdict(line=number, url=url, accepted=True))
        except Rejected as error:
            verdicts.append(SeedVerdict(line=number, url=text[:500], accepted=False, reason=str(error)[:300]))
    return verdicts


def accepted_urls(verdicts: Sequence[SeedVerdict]) -> list[str]:
    return [one.url for one in verdicts if one.accepted]


def check_role(submission: CrawlSubmission, role: Role) -> None:
    """Raise unless the role may submit this: being less polite and forgetting pages are the admin's."""
    for field, wanted in (("robots", submission.robots is False), ("fresh", submission.fresh)):
        if wanted and not role.includes(Role.ADMIN):
            raise ApiError(403, "role_too_small", f"{field}: this needs a token with the role admin")


def crawl_name(submission: CrawlSubmission, urls: Sequence[str]) -> str:
    """Return the name of the crawl: the given one, the spider's file, or the host of the first URL."""
    if submission.name is not None:
        return submission.name
    if submission.spider is not None:
        file, _, attribute = submission.spider.partition(":")
        return attribute or Path(file).stem
    for url in (*urls, *submission.sitemaps):
        return host_key(start_url(url))
    raise Misconfigured("nothing to crawl: give urls, sitemaps or the name of a spider")


def spider_path(name: str, folder: Path | None) -> str:
    """Return the path of an allowed spider, with its attribute; raise if there is no such file."""
    if folder is None:
        raise Misconfigured("spider: this server allows none; its operator names a folder with --spiders")
    file, colon, attribute = name.partition(":")
    path = folder.resolve() / file
    if not path.is_file() or path.resolve().parent != folder.resolve():
        known = ", ".join(known_spiders(folder)[:20]) or "none"
        raise Misconfigured(f"spider: there is no {file!r}; this server has: {known}")
    return f"{path}{colon}{attribute}"


def known_spiders(folder: Path) -> list[str]:
    try:
        return sorted(
            one.name for one in folder.iterdir() if one.suffix in (".py", ".toml") and one.is_file()
        )
    except OSError:
        return []


def crawl_definition(
    submission: CrawlSubmission, *, urls: Sequence[str], seeds_file: str = "", spiders: Path | None = None
) -> CrawlDefinition:
    """Return what `shoal crawl` or `shoal submit` is started with.

    `seeds_file` has the URLs instead, where there are many.
    """
    if submission.spider is not None and submission.fields:
        raise Misconfigured("fields: they are for crawls without a spider, which defines what to extract")
    if submission.spider is None and submission.arguments:
        raise Misconfigured("arguments: they are for spiders")
    return CrawlDefinition(
        spider="" if submission.spider is None else spider_path(submission.spider, spiders),
        urls=() if seeds_file else tuple(urls),
        items=tuple(f"{field}={css}" for field, css in submission.fields.items()),
        arguments=tuple(f"{field}={value}" for field, value in submission.arguments.items()),
        sitemaps=tuple(start_url(url) for url in submission.sitemaps),
        outputs=tuple(submission.outputs),
        seeds=seeds_file or None,
        follow=submission.follow,
        depth=_text(submission.depth),
        max_pages=_text(submission.max_pages),
        rate=_text(submission.rate),
        per_host=_text(submission.per_host),
        concurrency=_text(submission.concurrency),
        contact=submission.contact,
        same_host=submission.same_host,
        robots=submission.robots,
    )


def _text(number: float | None) -> str | None:
    return None if number is None else str(number)
