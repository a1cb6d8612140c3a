"""Read the list of exits: lines in the settings, and files with one per line."""

import logging
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.model.errors import Misconfigured, Rejected
from shoal.model.exits.choice import slice_of
from shoal.model.exits.exit import Exit, is_line, name_exits, parse_exit, split_lines

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 20
MAX_EXITS = 10_000


def read_exits(entries: Sequence[str]) -> tuple[Exit, ...]:
    """Return the exits of a list. Errors name the place of a bad line, and never its text."""
    found = []
    for place, line in _lines(entries):
        try:
            found.append(parse_exit(line))
        except Rejected as error:
            raise Misconfigured(f"proxies.list: {place}: {error}") from None
        if len(found) > MAX_EXITS:
            raise Misconfigured(f"proxies.list: more than {MAX_EXITS:,} exits")
    try:
        return name_exits(found)
    except Rejected as error:
        raise Misconfigured(f"proxies.list: {error}") from None


def part_of(exits: tuple[Exit, ...], wanted: str) -> tuple[Exit, ...]:
    """Return the part of a list that `proxies.slice` asks for; all of it for an empty text or `auto`."""
    if not wanted or wanted == "auto":
        return exits
    number, _, count = wanted.partition("/")
    return slice_of(exits, int(number) - 1, int(count))


def _lines(entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, entry in enumerate(entries, 1):
        if entry.startswith("#"):
            continue
        if is_line(entry):
            for line in split_lines(entry):
                yield f"entry {number}", line
            continue
        for at, text in enumerate(_read(number, entry).splitlines(), 1):
            if (text := text.strip()) and not text.startswith("#"):
                for line in split_lines(text):
                    yield f"entry {number}, line {at}", line


def _read(number: int, name: str) -> str:
    """Return the text of a file; the name is not shown: by mistake it may be a password."""
    try:
        found = Path(name).stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise Misconfigured(f"proxies.list: entry {number}: not a proxy URL, nor a file of at most 1 MiB")
        if found.st_mode & (stat.S_IRGRP | stat.S_IROTH):
            log.warning("proxies.file_readable", extra={"entry": number, "change_with": f"chmod 600 {name}"})
        return Path(name).read_text("utf-8-sig")
    except OSError as error:
        raise Misconfigured(
            f"proxies.list: entry {number}: neither a proxy URL, such as http://user:password@host:8000,"
            f" nor a file that can be read: {error.strerror}"
        ) from None
    except ValueError:
        raise Misconfigured(f"proxies.list: entry {number}: the file is not text") from None
