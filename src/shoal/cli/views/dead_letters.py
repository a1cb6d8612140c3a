"""Dead letters as they are shown."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from shoal.cli.process.log_format import shown
from shoal.cli.views.format import counted

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetter


def instant(seconds: float) -> str:
    """Write an instant, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def letter_json(letter: "DeadLetter") -> dict[str, object]:
    request = letter.request
    return {
        "crawl": letter.crawl,
        "url": request.url,
        "method": request.method,
        "host": letter.host,
        "class": letter.kind.value,
        "reason": letter.reason,
        "status": letter.status,
        "attempts": letter.attempts,
        "crashes": letter.crashes,
        "first_at": letter.first_at,
        "died_at": letter.died_at,
        "holder": letter.holder,
        "trace": letter.trace,
        "depth": request.depth,
        "priority": request.priority,
        "route": request.route,
        "data": msgspec.to_builtins(request.data, str_keys=True),
        "found_on": f"{request.found_on:016x}" if request.found_on else None,
        "chain": list(request.chain),
        "page_kept": letter.page is not None,
        "page": None if letter.page is None else list(_place(letter)),
    }


def _place(letter: "DeadLetter") -> tuple[str, int, int]:
    assert letter.page is not None
    ref = letter.page.ref
    return ref.segment, ref.offset, ref.length


def letter_lines(letters: Sequence["DeadLetter"]) -> Iterator[str]:
    """Two lines a letter: when, what class and where; then how often tried and why."""
    if not letters:
        yield "no dead letters"
    for letter in letters:
        yield f"{instant(letter.died_at)}  {letter.kind.value}  {letter.request.url}"
        yield f"    {letter.crawl}: {counted(letter.attempts, 'attempt')}; {shown(letter.reason)}"


def whole_letter(letter: "DeadLetter") -> Iterator[str]:
    """Say everything that is known of one letter. Of its headers and body only that they are there: they may
    hold secrets."""
    request = letter.request
    yield f"{request.method} {request.url}"
    for name, value in (
        ("crawl", letter.crawl),
        ("trace", letter.trace),
        ("host", letter.host),
        ("class", letter.kind.value),
        ("reason", shown(letter.reason)),
        ("status", str(letter.status) if letter.status else "no answer"),
        ("attempts", f"{letter.attempts}, the first {instant(letter.first_at)}"),
        ("given up", f"{instant(letter.died_at)} by {letter.holder}"),
        ("crashes", str(letter.crashes) if letter.crashes else ""),
        ("depth", str(request.depth)),
        ("priority", str(request.priority)),
        ("handler", shown(request.route) if request.route else ""),
        ("found on", f"{request.found_on:016x}" if request.found_on else "nowhere: a start URL"),
        ("via", " -> ".join(request.chain)),
        ("headers", ", ".join(request.headers)),
        ("body", counted(len(request.body), "byte") if request.body else ""),
        ("data", shown(request.data) if request.data else ""),
        ("page", "{} at {}, {} bytes".format(*_place(letter)) if letter.page else "none kept"),
    ):
        if value:
            yield f"  {name:<9} {value}"
