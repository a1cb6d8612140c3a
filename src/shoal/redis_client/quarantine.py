"""The quarantine of a shared store: entries that cannot be read, moved out of everyone's way.

A stream per crawl and shard, `T:quarantine:C`, holds the latest of them with where they came from and why.
Crawl number 0 stands for entries that belong to no crawl. Moving an entry is one script: it is in its place
or in the quarantine, never in both or none.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.model.quarantine import MAX_ENTRIES, MAX_ENTRY_BYTES, QuarantinedEntry
from shoal.redis_client import key_names
from shoal.redis_client.client import RedisClient
from shoal.redis_client.errors import ScriptFault
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.script import ScriptArgument, load_script

log = logging.getLogger(__name__)

NO_CRAWL = 0
WHOLE_KEY = "key"  # as the type of an entry: the key itself is wrong
MOVED_PER_CALL = 50

_SCRIPT = load_script("shoal.redis_client", "quarantine")


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An entry that cannot be read, where it is."""

    key: str
    type: str  # of its key: "hash", "list", "zset", "set", "stream", "string"; or WHOLE_KEY
    member: bytes  # a field of a hash, the id of a stream entry, else the value itself
    reason: str


class Quarantine:
    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def move(self, tag: str, crawl: int, entries: Sequence[UnreadableEntry]) -> int:
        """Move entries of one shard to the quarantine, and log each; return how many were still there."""
        moved = 0
        for begin in range(0, len(entries), MOVED_PER_CALL):
            some = entries[begin : begin + MOVED_PER_CALL]
            arguments: list[ScriptArgument] = [crawl, time.time(), MAX_ENTRIES, MAX_ENTRY_BYTES]
            for entry in some:
                arguments += [entry.key, entry.type, entry.member, entry.reason[:500]]
            lengths = await self._client.run(_SCRIPT, tag, arguments)
            for entry, length in zip(some, lengths, strict=True):
                if length >= 0:
                    moved += 1
                    log.error(
                        "entry.quarantined",
                        extra={
                            "place": entry.key,
                            "entry": _text(entry.member),
                            "bytes": length,
                            "why": entry.reason,
                        },
                    )
        return moved

    async def entries(self, crawl: int) -> list[QuarantinedEntry]:
        """Return what is in the quarantine of a crawl, oldest first."""
        tags = [*self._client.tags(), *([self._client.fleet_tag] if crawl == NO_CRAWL else [])]
        found = await fan_out(self._entries(tag, crawl) for tag in tags)
        return sorted((entry for entries in found for entry in entries), key=lambda entry: entry.at)

    async def _entries(self, tag: str, crawl: int) -> list[QuarantinedEntry]:
        try:
            rows = await self._client.do(tag, "XRANGE", key_names.quarantine(tag, crawl), "-", "+")
        except ScriptFault:  # the key has another type; the next entry that is moved replaces it
            return []
        return [_entry(dict(zip(fields[::2], fields[1::2], strict=True))) for _, fields in rows]

    async def length(self, crawl: int) -> int:
        """Count what is in the quarantine of a crawl."""
        return len(await self.entries(crawl))


def _entry(fields: dict[bytes, bytes]) -> QuarantinedEntry:
    return QuarantinedEntry(
        place=_text(fields.get(b"place", b"")),
        entry_id=_text(fields.get(b"id", b"")),
        reason=_text(fields.get(b"reason", b"")),
        body_bytes=int(_number(fields.get(b"size", b"0"))),
        at=_number(fields.get(b"at", b"0")),
        body=fields.get(b"body", b""),
    )


def _number(packed: bytes) -> float:
    try:
        return float(packed)
    except ValueError:
        return 0.0


def _text(packed: bytes) -> str:
    """Return bytes as text that is safe in logs and terminals."""
    text = packed[:200].decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
