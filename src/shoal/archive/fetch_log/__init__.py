"""The fetch log: one row per attempt, beside the archive of its crawl, in the folder `attempts`.

It is evidence and not state: no other part reads it to decide anything, and a crawl runs on if it cannot be
written. Every process that works on a crawl writes separate parts, with names like those of segments.

    NAME-20261117-00001.log        the part that is being written: blocks of rows, appended once per second
    NAME-20261117-00001.parquet    a part that is complete
    NAME-20261117-00001.attempts   the same for a small part, and where the extra `parquet` is not installed

On an object store, where nothing can be appended, every write is a complete part.

Guarantees. A row is written after the store has committed the outcome of its attempt. A block has a checksum,
so that a reader stops in front of one that a kill has cut off. A kill costs at most what was committed in the
last second (ten seconds on an object store), and never more than 1,000 rows and those of one commit. A `.log`
is removed only when the complete part of the same name has been written; while both exist, the `.log` counts.
"""

from shoal.archive.fetch_log.columns import COLUMNS, LoggedAttempt, Row
from shoal.archive.fetch_log.reader import FetchLogReader, TailPosition
from shoal.archive.fetch_log.writer import FetchLogWriter, open_parts

__all__ = [
    "COLUMNS",
    "FetchLogReader",
    "FetchLogWriter",
    "LoggedAttempt",
    "Row",
    "TailPosition",
    "open_parts",
]
