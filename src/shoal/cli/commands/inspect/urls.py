"""`shoal urls`: the URLs of a crawl by state."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.dead_letter_filters import Host, Limit, Match
from shoal.cli.input.options import Config, Crawl, Store, examples, option
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.inspect.urls import ListedRequest, UrlFilter, UrlList

EXAMPLES = examples(
    ("What is still to come on one host", "shoal urls --state waiting --host shop.example"),
    ("What was skipped, and by which rule", "shoal urls --state filtered"),
    ("Pages of the last hour, one JSON object per line", "shoal urls --state done --since 1h --json"),
    ("Which of these are known?", "shoal urls --match /product/ --limit 100"),
)

STATES = {
    "waiting": ("waiting", "delayed"),
    "to-retry": ("delayed",),
    "in-progress": ("leased", "parsing"),
    "done": ("done",),
    "gone": ("gone",),
    "dead": ("dead",),
    "failed": ("dead",),
    "filtered": ("filtered",),
    "skipped": ("filtered",),
    "held": ("held",),
}
WORDS = {
    "delayed": "to retry",
    "leased": "in progress",
    "parsing": "in progress",
    "dead": "failed",
    "filtered": "skipped",
}
LINES_AT_ONCE = 64

State = Annotated[
    list[str] | None,
    option(
        "--state",
        "STATE",
        "waiting, to-retry, in-progress, done, gone, dead, filtered, held; repeatable.",
        default="all",
    ),
]
Since = Annotated[
    str | None, option("--since", "AGE", "Only what ended or was started at most this long ago: 90s, 2h, 7d.")
]
JsonLines = Annotated[bool, option("--json", "", "Print one JSON object per line.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlOptions:
    """The options of `shoal urls`."""

    state: State = None
    host: Host = None
    since: Since = None
    match: Match = None
    limit: Limit = None
    crawl: Crawl = None
    store: Store = None
    config: Config = None
    json: JsonLines = False

    def filter(self) -> "UrlFilter":
        """Return the filter that the options describe; raise `Misconfigured` if one is not valid."""
        from shoal.cli.input.dead_letter_filters import age, pattern
        from shoal.services.inspect.urls import UrlFilter

        return UrlFilter(
            crawl=self.crawl,
            states=states_of(self.state or ()),
            host=(self.host or "").lower(),
            newer=age("--since", self.since),
            match=pattern(self.match),
            limit=self.limit,
        )


def states_of(words: "list[str] | tuple[str, ...]") -> tuple[str, ...]:
    """Return the states that the values of --state name; all of them without any."""
    chosen: dict[str, None] = {}
    for word in words or ("waiting", "in-progress", "done", "gone", "dead", "filtered", "held"):
        try:
            chosen.update(dict.fromkeys(STATES[word.lower().replace("_", "-").replace(" ", "-")]))
        except KeyError:
            raise Misconfigured(f"--state {word!r}: must be one of {', '.join(STATES)}") from None
    return tuple(chosen)


def command(options: UrlOptions) -> None:
    """List the URLs of a crawl: state, status, attempts and time.

    Reads only; safe while a crawl runs. A fleet keeps no list of URLs that are gone or filtered, and takes
    those that are done from the archive.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.services.inspect.urls import UrlList

    listing = UrlList(chosen_store(options.store, config=options.config), options.filter())
    run(_print(listing, json=options.json))


async def _print(listing: "UrlList", *, json: bool) -> None:
    from shoal.cli.views.format import by_count
    from shoal.cli.views.output import json_text, print_lines, print_message
    from shoal.services.inspect.urls import listed_json

    lines: list[str] = []
    found = 0
    async for crawl, one in listing.run():
        found += 1
        lines.append(json_text(listed_json(crawl, one)) if json else line_of(one))
        if len(lines) >= LINES_AT_ONCE or found == 1:
            print_lines(lines, whole=json)
            lines.clear()
    if lines:
        print_lines(lines, whole=json)
    if not found and not json:
        print_message("no such URLs")
    if listing.unlisted:
        words = {WORDS.get(state, state): number for state, number in listing.unlisted.items()}
        print_message(
            f"not listed: {by_count(words)}: the store has not kept their URLs (see shoal urls --help)"
        )


def line_of(one: "ListedRequest") -> str:
    """Return a line: time, state, status, attempts, URL, and why it failed or was skipped."""
    from shoal.cli.views.format import utc_time
    from shoal.model.request import trace_id

    when = utc_time(one.at) if one.at is not None else "-"
    state = WORDS.get(one.state, one.state)
    method = "" if one.method == "GET" else f"{one.method} "
    url = one.url or f"(URL not kept; trace {trace_id(one.fingerprint)})"
    why = f"  {one.rule}: {one.reason}" if one.rule else ""
    return f"{when:<20}  {state:<11}  {one.status or '-':>3}  {one.attempts:>2}  {method}{url}{why}"
