"""Dead letters: requests that were given up."""

import re

import msgspec

from shoal.model.api.dead_letters import DeadLetterInfo, DeadLetterPage, DeadLetterQuery, OneDeadLetter
from shoal.model.api.problem import ApiError
from shoal.model.url import host_name
from shoal.server.http.cursors import decode_cursor, encode_cursor
from shoal.server.state.context import ApiServer
from shoal.services.control.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    dead_letter_json,
    find_letters,
    page_of_letters,
)

SEARCH_S = 0.1  # that one call looks through dead letters


async def list_dead_letters(server: ApiServer, params: DeadLetterQuery) -> DeadLetterPage:
    """List dead letters, latest first.

    A call looks through a bounded part: a page may have fewer than asked for although more follow.
    """
    found = await page_of_letters(
        server.dsn,
        letter_filter(params, limit=None),
        after=decode_cursor(params.cursor, tuple[float, str, float, int]),
        limit=params.limit,
        max_s=SEARCH_S,
    )
    return DeadLetterPage(
        dead_letters=[letter_state(letter) for letter in found.letters],
        next_cursor=None if found.after is None else encode_cursor(found.after),
        searched=found.searched,
    )


def letter_filter(params: DeadLetterQuery, *, limit: int | None) -> DeadLetterFilter:
    return DeadLetterFilter(
        crawl=params.crawl,
        kind=params.kind,
        host=host_name(params.host) if params.host else "",
        older=params.older_s,
        newer=params.newer_s,
        match=re.compile(re.escape(params.match)) if params.match else None,
        limit=limit,
    )


async def show_dead_letter(server: ApiServer, params: OneDeadLetter) -> DeadLetterPage:
    """Show everything about one dead letter: at most one per crawl and method."""
    found = await find_letters(server.dsn, params.crawl, params.trace)
    if not found:
        raise ApiError(404, "no_such_dead_letter", f"no dead letter has the trace {params.trace!r}")
    return DeadLetterPage(dead_letters=[letter_state(letter) for letter in found])


def letter_state(letter: DeadLetter) -> DeadLetterInfo:
    return msgspec.convert(dead_letter_json(letter), DeadLetterInfo)
