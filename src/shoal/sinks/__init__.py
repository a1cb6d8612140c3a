"""Sinks: where items go, each of them once.

The contract that every sink keeps; `tests/contract/test_sinks.py` runs it.

restore(checkpoint) opens the output and takes it back to exactly what it held when `flush` returned that
checkpoint, whatever was written since and however that ended. None means that this crawl has written
nothing yet: an output that already holds something is then refused, because it is somebody else's, unless
the sink was opened to overwrite. Commit the checkpoint of a `flush` right after `restore(None)`: from then
on the output counts as this crawl's own.

write(items) takes items in and does nothing that can fail. flush() hands everything written to the
operating system (to the disk, with `fsync`) and returns the checkpoint, which the store commits in the
transaction that settles the items' pages. If it raises `Unavailable` (the disk is full) nothing is lost:
call it again. finish() is the last flush of a run: it also brings the output into the form in which it is
meant to be read. close() lets go of the files and drops what was not flushed.

Between a flush and the store's commit a kill leaves the output ahead of the store. The next `restore` cuts
it back, the pages are parsed again, and the items come again: each one is there once, and no half line
ever stays.

Standard output cannot be cut back: after a kill it may repeat items (at least once instead of once).

What each format does with fields is told where it is written: `csv.py`, `sqlite.py`, `parquet.py`,
`postgres.py`. In a fleet, where items come by way of the store, `writer.py` feeds an output; what it promises
is run by `tests/contract/test_item_streams.py`.
"""

from shoal.sinks.multi import MultiSink
from shoal.sinks.registry import Sink, open_sink

__all__ = ["MultiSink", "Sink", "open_sink"]
