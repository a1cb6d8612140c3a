"""Read the items of a crawl page by page: by byte offset in a file of JSON lines, else by number.

An offset stays valid while the crawl runs, because such a file only grows. Where it was replaced (a new
generation), the offset no longer follows a line break, and the reader has to begin again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.api.problem import ApiError
from shoal.model.errors import Misconfigured
from shoal.services.item_file import is_item_file, stored_length
from shoal.sinks.names import public_name
from shoal.sinks.registry import resolve
from shoal.stores.contract.pages import ItemNeeds, readable_outputs
from shoal.stores.contract.places import Places
from shoal.stores.contract.store import require_crawl
from shoal.stores.open import open_store

CHUNK_BYTES = 256 * 1024
MAX_SCANNED_BYTES = 16 << 20  # by one call
MAX_PAGE_BYTES = 8 << 20
MAX_NUMBER = 1_000_000  # items that are skipped in an output without offsets
Item = dict[str, Any]


class Position(msgspec.Struct, frozen=True, array_like=True):
    at: int  # offset, or number
    newest: bool = False


async def find_output(dsn: str, crawl: str, *, allowed: tuple[str, ...], every: bool = False) -> str:
    """Return the output that holds the items of a crawl most exactly; raise `Misconfigured` without one.

    A record of a shared store can name any file and any server. There only what the operator of this machine
    allows is read: `allowed`, or without that the current folder. `every`: raise if one is not allowed.
    """
    async with open_store(dsn) as store:
        require_crawl(crawl, await store.crawls.names())
        pages = await store.archive_of(crawl)
        found = readable_outputs(await pages.outputs(), ItemNeeds())
        places = Places(allowed)
        refused = [why for output in found if store.capabilities.shared and (why := places.refusal(output))]
        found = [output for output in found if not store.capabilities.shared or not places.refusal(output)]
    if refused and (every or not found):
        raise Misconfigured(refused[0].replace("--allow-output", "worker.allow_outputs ="))
    if not found:
        raise Misconfigured(f"crawl {crawl} has no output that can be read from here")
    return found[0]


@dataclass(frozen=True, slots=True)
class ItemsRead:
    output: str  # without secrets
    items: Sequence[Item]
    after: Position | None  # of the next items; None: there are no more yet
    read_to: int  # offset or number behind the last item that was read


async def read_items(
    output: str, position: Position | None, *, newest: bool, contains: str, limit: int
) -> ItemsRead:
    """Return the items of an output from a position on; None: from the first, or with `newest` the last."""
    if position is not None and position.newest != newest:
        raise ApiError(400, "bad_cursor", "newest: the cursor was made with the other order")
    needle = msgspec.json.encode(contains)[1:-1].lower() if contains else b""
    if is_item_file(output):
        reader = _newest if newest else _oldest
        at = None if position is None else position.at
        items, read_to, more = await asyncio.to_thread(reader, Path(output), at, needle, limit)
    else:
        if newest:
            raise Misconfigured("newest: only outputs of JSON lines can be read from their end")
        at = 0 if position is None else position.at
        items, read_to, more = await asyncio.to_thread(_numbered, output, at, needle, limit)
    return ItemsRead(public_name(output), items, Position(read_to, newest) if more else None, read_to)


def continue_reading(output: str, file: str, at: int) -> tuple[str, int]:
    """Return which file an output is, and where to continue after reading `file` up to `at`.

    A file that was put in the place of another one is read from its beginning. One that a crash has cut back
    is read from the last line break before `at`. An empty `file`: any, or an output without offsets.
    """
    if not is_item_file(output):
        return "", at
    path = Path(output)
    found = path.stat()
    current = f"{found.st_dev}-{found.st_ino}"
    if file not in ("", current):
        return current, 0
    at = min(at, stored_length(path))
    with path.open("rb") as lines:
        while at > 0:
            begin = max(0, at - CHUNK_BYTES)
            lines.seek(begin)
            if (end := lines.read(at - begin).rfind(b"\n")) >= 0:
                return current, begin + end + 1
            at = begin
    return current, 0


def _oldest(path: Path, at: int | None, needle: bytes, limit: int) -> tuple[list[Item], int, bool]:
    at, end = at or 0, stored_length(path)
    _check_offset(path, at, end)
    items: list[Item] = []
    last, size = min(end, at + MAX_SCANNED_BYTES), 0
    try:
        with path.open("rb") as file:
            file.seek(at)
            while at < last and len(items) < limit and size < MAX_PAGE_BYTES:
                line = file.readline()
                if not line.endswith(b"\n") or at + len(line) > end:
                    break
                at += len(line)
                if _matches(line, needle):
                    items.append(_decode(line))
                    size += len(line)
    except FileNotFoundError:
        return [], at, False
    return items, at, at < end and (at >= last or len(items) >= limit or size >= MAX_PAGE_BYTES)


def _newest(path: Path, at: int | None, needle: bytes, limit: int) -> tuple[list[Item], int, bool]:
    stored = stored_length(path)
    at = stored if at is None else at
    _check_offset(path, at, stored)
    items: list[Item] = []
    first, size = max(0, at - MAX_SCANNED_BYTES), 0
    try:
        with path.open("rb") as file:
            while at > first and len(items) < limit and size < MAX_PAGE_BYTES:
                for line in reversed(_lines_before(file, at)):
                    if len(items) >= limit or size >= MAX_PAGE_BYTES:
                        break
                    at -= len(line)
                    if line.endswith(b"\n") and _matches(line, needle):
                        items.append(_decode(line))
                        size += len(line)
    except FileNotFoundError:
        return [], at, False
    return items, at, at > 0


def _lines_before(file: Any, end: int) -> list[bytes]:
    """Return the whole lines that end at `end`: at least one, however long it is."""
    begin, text = end, b""
    while begin > 0:
        step = min(CHUNK_BYTES, begin)
        begin -= step
        file.seek(begin)
        text = file.read(step) + text
        if begin == 0 or b"\n" in text[:-1]:
            break
    lines: list[bytes] = text.splitlines(keepends=True)
    return lines if begin == 0 else lines[1:]


def _check_offset(path: Path, at: int, end: int) -> None:
    replaced = at > end
    if 0 < at <= end:
        with path.open("rb") as file:
            file.seek(at - 1)
            replaced = file.read(1) != b"\n"
    if replaced:
        raise ApiError(410, "output_replaced", "the output was written anew: begin without a cursor")


def _numbered(output: str, at: int, needle: bytes, limit: int) -> tuple[list[Item], int, bool]:
    if at > MAX_NUMBER:
        raise Misconfigured(f"only the first {MAX_NUMBER:,} items of this output can be paged: download it")
    read = resolve(output).factory.read
    assert read is not None, "see `readable_outputs`"
    items: list[Item] = []
    for item in islice(read(output), at, None):
        if len(items) >= limit:
            return items, at, True
        at += 1
        if _matches(item.json, needle):
            items.append(_decode(item.json))
    return items, at, False


def _matches(line: bytes, needle: bytes) -> bool:
    return not needle or needle in line.lower()


def _decode(line: bytes) -> Item:
    try:
        return msgspec.json.decode(line, type=Item)
    except msgspec.MsgspecError:
        return {"unreadable": line[:200].decode(errors="replace")}
