"""The newest items of an output, and a search in them.

An output of JSON lines is read from its end, a bounded part per call; the cursor continues further back. What
is read is what the file has: during a crash it may be a few items more than the crawl has committed.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from shoal.model.api.live import ItemPage
from shoal.model.errors import Misconfigured
from shoal.services.item_file import is_item_file
from shoal.sinks.names import public_name
from shoal.stores.contract.places import NO_SERVERS
from shoal.stores.contract.store import Store, require_crawl
from shoal.stores.open import open_store

SEARCH_BYTES = 16 << 20  # that one call looks through
CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 4 << 20  # a longer item is left out


async def item_files(store: Store, crawl: str) -> tuple[list[str], list[str]]:
    """Return the outputs of a crawl that can be read here, and the names of all."""
    require_crawl(crawl, await store.crawls.names())
    outputs = sorted(await (await store.archive_of(crawl)).outputs())
    return [output for output in outputs if _is_readable(store, output)], outputs


def _is_readable(store: Store, output: str) -> bool:
    """Return whether an output is a file that this process may show.

    A record of a shared store can name any path, so there only files below the current folder are read.
    """
    if not is_item_file(output) or not os.path.isfile(output):
        return False
    return not store.capabilities.shared or not NO_SERVERS.refusal(output)


async def read_items(dsn: str, crawl: str, *, search: str, cursor: int | None, limit: int) -> ItemPage:
    """Return items of a crawl, the newest first; `cursor` is where the last call stopped."""
    async with open_store(dsn) as store:
        readable, outputs = await item_files(store, crawl)
    names = [*map(public_name, outputs)]
    if not readable:
        problem = (
            f"the items are in {', '.join(names)}: only JSONL files on this machine are shown here;"
            f" shoal export {crawl} writes one"
            if names
            else "this crawl has no output yet"
        )
        return ItemPage(output="", items=[], problem=problem, outputs=names)
    page = await asyncio.to_thread(newest_items, Path(readable[0]), search=search, cursor=cursor, limit=limit)
    return msgspec.structs.replace(page, output=public_name(readable[0]), outputs=names)


async def item_file(dsn: str, crawl: str) -> Path:
    """Return the file with the items of a crawl; raise `Misconfigured` if none can be read here."""
    async with open_store(dsn) as store:
        readable, _ = await item_files(store, crawl)
    if not readable:
        raise Misconfigured(f"crawl {crawl!r} has no JSONL output on this machine: shoal export writes one")
    return Path(readable[0])


def newest_items(path: Path, *, search: str, cursor: int | None, limit: int) -> ItemPage:
    """Return up to `limit` items of a file, from its end or from `cursor` backwards."""
    wanted = search.encode().lower()
    found: list[object] = []
    size = path.stat().st_size
    end = size if cursor is None else min(cursor, size)
    start = at = end
    for at, line in lines_before(path, end):
        if (not wanted or wanted in line.lower()) and (item := _decoded(line)) is not None:
            found.append(item)
        start = at
        if len(found) >= limit or end - at >= SEARCH_BYTES:
            break
    else:
        start = 0
    return ItemPage(
        output=str(path),
        items=found,
        next_cursor=str(start) if start > 0 else None,
        searched_bytes=end - start,
        size_bytes=size,
    )


def _decoded(line: bytes) -> dict[str, object] | None:
    """Return an item; None: the line is not one."""
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def lines_before(path: Path, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file before `end`, the last first, each with where it starts.

    The last line is left out if it has no end: it is being written.
    """
    with path.open("rb") as file:
        rest = b""  # the start of a line whose end was read
        at = end
        complete = False
        while at > 0:
            step = min(CHUNK_BYTES, at)
            at -= step
            file.seek(at)
            data = file.read(step) + rest
            parts = data.split(b"\n")
            position = at + len(data)
            for number in range(len(parts) - 1, 0, -1):
                line = parts[number]
                position -= len(line)
                if complete and line and len(line) <= MAX_LINE_BYTES:
                    yield position, line
                complete = True
                position -= 1
            rest = parts[0] if len(parts[0]) <= MAX_LINE_BYTES else b""
        if complete and rest:
            yield 0, rest
