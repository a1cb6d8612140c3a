"""A crawl as it was submitted: everything that a worker needs to run it.

The record includes the text of the spider's file, so workers need no copy of it. Only a spider in a module
has to be installed where the workers run. Records that come from a store are read by `record_reader`.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from shoal.model.http.header_names import is_secret
from shoal.model.settings import Settings
from shoal.spider.source import SpiderFile, SpiderSource, SpiderText, StoredSpiderSource

LOCAL_FOLDER = Settings().store
"""The folder for a worker's files (archive, logs, default outputs) where settings name no other place."""


class CrawlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One submitted crawl."""

    name: str
    number: int = 0  # of this generation in the frontier: `--fresh` starts a generation with a new number
    source: StoredSpiderSource  # for a file, only its name; its text is in `text`
    text: bytes = b""  # of the spider's file
    version: str = ""  # of the spider's code
    settings: dict[str, Any]  # the whole tree, with the spider's options applied
    hosts: tuple[str, ...] | None = None  # that are in scope; None: every host
    home: tuple[str, ...] = ()  # the origins of the seeds, to which alone secret headers go
    cookies: bytes = b"[]"  # given by the user
    outputs: tuple[str, ...] = ()
    overwrite: bool = False  # outputs that another crawl or program wrote may be replaced
    submitted_at: float = 0.0

    @property
    def revision(self) -> str:
        """Return a digest of everything that affects how the crawl runs."""
        packed = msgspec.msgpack.encode(msgspec.structs.replace(self, submitted_at=0.0), order="sorted")
        return sha256(packed).hexdigest()[:12]

    def without_secrets(self) -> "CrawlRecord":
        """Return the record without cookies, and without headers that may be secret."""
        settings = dict(self.settings)
        if "crawl" in settings:
            settings["crawl"] = _without_secrets(settings["crawl"])
        if isinstance(hosts := settings.get("hosts"), Mapping):
            settings["hosts"] = {host: _without_secrets(block) for host, block in hosts.items()}
        return msgspec.structs.replace(self, settings=settings, cookies=b"[]")

    @property
    def archive_location(self) -> str:
        """Return where all workers write the crawl's pages; empty: each worker into its local folder."""
        return str(self.settings.get("archive", {}).get("location", ""))


def _without_secrets(table: Any) -> Any:
    if not isinstance(table, Mapping):
        return table
    kept = dict(table)
    if isinstance(headers := kept.get("headers"), Mapping):
        kept["headers"] = {name: value for name, value in headers.items() if not is_secret(name)}
    if "cookies" in kept:
        kept["cookies"] = {}
    return kept


class StoredRecords(msgspec.Struct, frozen=True):
    """The records of a store: those that can be used, and by crawl why others cannot."""

    records: Sequence[CrawlRecord]
    refused: Mapping[str, str]


def spider_source(record: CrawlRecord) -> SpiderSource:
    """Return the spider of a record, for the process that loads it."""
    if isinstance(source := record.source, SpiderFile):
        return SpiderText(source.path, record.text, source.attribute, source.arguments)
    return source
