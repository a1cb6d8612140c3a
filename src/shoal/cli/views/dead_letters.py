"""Dead letters as text and JSON."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.cli.views.format import plural, quote_value, utc_time

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetter


def _place(letter: "DeadLetter") -> tuple[str, int, int]:
    assert letter.page is not None
    ref = letter.page.ref
    return ref.segment, ref.offset, ref.length


def _attempts(letter: "DeadLetter") -> str:
    attempts = plural(letter.attempts, "attempt")
    return f"{attempts}, {letter.crashes} lost with a worker" if letter.crashes else attempts


def letter_lines(letters: Sequence["DeadLetter"], *, more: bool = False) -> Iterator[str]:
    """Yield two lines per letter: time, class and URL; then attempts and reason. `more`: it has others."""
    if not letters:
        yield "no dead letters"
    for letter in letters:
        yield f"{utc_time(letter.died_at)}  {letter.kind.value}  {letter.request.url}"
        yield f"    {letter.crawl}: {_attempts(letter)}; {quote_value(letter.reason)}"
    if more:
        yield f"these are the latest {len(letters)}; --limit N lists more, shoal status counts all by class"


def letter_details(letter: "DeadLetter") -> Iterator[str]:
    """Yield everything about one letter. Header values and the body are left out: they may hold secrets."""
    request = letter.request
    yield f"{request.method} {request.url}"
    for name, value in (
        ("crawl", letter.crawl),
        ("trace", letter.trace),
        ("host", letter.host),
        ("class", letter.kind.value),
        ("reason", quote_value(letter.reason)),
        ("status", str(letter.status) if letter.status else "no response"),
        ("attempts", f"{letter.attempts}, the first {utc_time(letter.first_at)}"),
        ("given up", f"{utc_time(letter.died_at)} by {letter.holder}"),
        ("crashes", str(letter.crashes) if letter.crashes else ""),
        ("depth", str(request.depth)),
        ("priority", str(request.priority)),
        ("handler", quote_value(request.route) if request.route else ""),
        ("found on", f"{request.found_on:016x}" if request.found_on else "nowhere: a start URL"),
        ("via", " -> ".join(request.chain)),
        ("headers", ", ".join(request.headers)),
        ("body", plural(len(request.body), "byte") if request.body else ""),
        ("data", quote_value(request.data) if request.data else ""),
        ("page", "{} at {}, {} bytes".format(*_place(letter)) if letter.page else "none kept"),
    ):
        if value:
            yield f"  {name:<9} {value}"
    if letter.detail:
        yield "  traceback"
        yield from (f"    {line}" for line in letter.detail.split("\n"))
