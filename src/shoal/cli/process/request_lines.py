"""Requests as people read them go by: status, time, size, URL, and what else there is to say.

    200     31 ms   1.2 kB  https://shop.example/product/7.html  from /category/nets/
    301     30 ms      0 B  https://shop.example/sale/  -> /category/nets/
    503     31 ms    312 B  https://shop.example/product/9.html  target_error: status 503; retry in 2.1 s

The columns before the URL take 24 of 80, and URLs are never cut: they are copied.
"""

from collections.abc import Iterator, Mapping

from shoal.cli.views.format import by_count, plural, size

REQUESTS = "shoal.requests"  # the logger of one line per request
EVENTS = frozenset(
    {
        "request.done",
        "request.redirected",
        "request.gone",
        "request.filtered",
        "request.retried",
        "request.failed",
        "item.found",
        "link.skipped",
        "page.parsed",
    }
)
_INDENT = " " * 6


def request_line(event: str, facts: Mapping[str, object]) -> str:
    """Return the line for an event of a request or its page."""
    url = str(facts.get("url", ""))
    match event:
        case "item.found":
            return f"{_INDENT}item  {facts['item']}"
        case "link.skipped":
            return f"{_INDENT}skip  {facts['rule']}  {url}"
        case "page.parsed":
            return f"{_INDENT}page  {', '.join(_brought(facts))}  {url}"
    status, bytes = facts.get("status") or "---", facts.get("bytes")
    measured = "" if bytes is None else size(int(str(bytes)))
    columns = f"{status:>3} {facts.get('ms', 0):>6} ms {measured:>8}"
    return "  ".join([columns, url, *_remarks(event, facts, url)])


def _brought(facts: Mapping[str, object]) -> Iterator[str]:
    for name, noun in (("items", "item"), ("links", "new link"), ("duplicates", "duplicate")):
        yield plural(int(str(facts.get(name, 0))), noun)
    prefix = "filtered_"
    filtered = {
        name.removeprefix(prefix): int(str(count)) for name, count in facts.items() if name.startswith(prefix)
    }
    if filtered:
        yield f"filtered: {by_count(filtered)}"


def _remarks(event: str, facts: Mapping[str, object], url: str) -> Iterator[str]:
    if "method" in facts:
        yield str(facts["method"])
    if "to" in facts:
        yield f"-> {shorten(str(facts['to']), url)}"
    if "attempt" in facts:
        yield f"attempt {facts['attempt']}"
    if "failure" in facts:
        retry = f"; retry in {facts['retry_in_s']} s" if "retry_in_s" in facts else "; given up"
        yield f"{facts['failure']}: {facts['reason']}{retry}"
    if event == "request.filtered":
        yield f"filtered by {facts['rule']}: {facts['reason']}"
    if event == "request.gone":
        yield "gone"
    if "from" in facts:
        yield f"from {shorten(str(facts['from']), url)}"


def shorten(url: str, beside: str) -> str:
    """Return a URL without its origin, if the URL beside it has the same one."""
    origin = "/".join(beside.split("/", 3)[:3])
    return url.removeprefix(origin) if url.startswith(f"{origin}/") else url
