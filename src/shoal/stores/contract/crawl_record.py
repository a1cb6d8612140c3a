"""A crawl as it was submitted: everything that a worker needs to run it.

The record includes the text of the spider's file, so workers need no copy of it. Only a spider in a module
has to be installed where the workers run. Records that come from a store are read by `record_reader`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shoal.model.http.header_names import is_secret
from shoal.model.settings import Settings
from shoal.spider.source import PlainSpider, SpiderFile, SpiderSource, StoredSpiderSource

PLAIN = "plain"  # the name of every spider without code, where crawls share one

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


class SpiderFiles:
    """The files of the spiders that a worker has loaded, one for each text.

    Crawls with the same spider get the same source, so that they can share the process that loads it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def source(self, record: CrawlRecord) -> SpiderSource:
        match record.source:
            case PlainSpider(items=items):
                return PlainSpider(PLAIN, (), items)  # the name and the start URLs are in the store
            case SpiderFile(path):
                # The reader of the record has checked that it is a file name.
                file = self._folder / sha256(record.text).hexdigest()[:32] / Path(path).name
                if not file.exists():
                    file.parent.mkdir(exist_ok=True)
                    file.write_bytes(record.text)
                return msgspec.structs.replace(record.source, path=str(file))
        return record.source


@contextmanager
def spider_on_disk(record: CrawlRecord) -> Iterator[SpiderSource]:
    """Write the spider's file to a temporary folder for as long as the block runs; yield its source."""
    if not isinstance(record.source, SpiderFile):
        yield record.source
        return
    with TemporaryDirectory(prefix="shoal-spider-") as folder:
        # The reader of the record has checked that it is a file name; nothing else may ever leave the folder.
        path = Path(folder, Path(record.source.path).name)
        path.write_bytes(record.text)
        yield msgspec.structs.replace(record.source, path=str(path))
