"""What was submitted to a fleet, read back: a crawl's settings and its spider's file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shoal.model.settings import Settings
from shoal.spider.source import SpiderFile, SpiderSource
from shoal.stores.redis.crawls import CrawlRecord

FOLDER = Settings().store  # where files of a fleet go that were given no place


def settings_of(record: CrawlRecord) -> Settings:
    """Read the settings back that a crawl was submitted with."""
    return msgspec.convert(record.settings, Settings)


@contextmanager
def placed(record: CrawlRecord) -> Iterator[SpiderSource]:
    """Put a spider's file where it can be loaded from, for as long as the block runs."""
    if not isinstance(record.source, SpiderFile):
        yield record.source
        return
    with TemporaryDirectory(prefix="shoal-spider-") as folder:
        path = Path(folder, record.source.path)
        path.write_bytes(record.text)
        yield msgspec.structs.replace(record.source, path=str(path))
