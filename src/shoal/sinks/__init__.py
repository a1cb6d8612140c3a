"""Sinks write the items of a crawl to its outputs, each item once.

Every sink keeps this contract; `shoal.testing.contracts.sink` checks it:

`restore(checkpoint)` opens the output and takes it back to exactly what it held when `flush` returned that
checkpoint, whatever was written since and however the process ended. None means that this crawl has written
nothing yet: `restore` then raises `Misconfigured` if the output already holds something, because another
crawl or program has written it, unless the sink was opened to overwrite. Commit the checkpoint of a `flush`
right after `restore(None)`: from then on the output belongs to this crawl.

`write(items)` buffers items and never fails. `flush()` passes everything buffered to the operating system
(to the disk, with `fsync`) and returns the checkpoint. The store commits it in the transaction that settles
the pages of the items. If `flush` raises `Unavailable` (the disk is full), the items stay buffered: call it
again. `finish()` is the last flush of a run; it also brings the output into its final form. `close()`
closes the files and drops what was not flushed.

A kill between a flush and the store's commit leaves the output ahead of the store. The next `restore` cuts
it back, the pages are parsed again and their items are written again: each item is there once, and no
partial line remains.

Standard output cannot be cut back: after a kill it may repeat items (at least once instead of exactly once).

How each format stores fields is documented in its module: `csv`, `sqlite`, `parquet`, `postgres.sink`. In a
fleet, items reach the outputs through the store: see `fleet.writer`; `tests/contract/test_item_streams.py`
checks what it guarantees.
"""

from shoal.sinks.contract import CheckpointedSink, LastFlush, Sink, SinkCapabilities, SinkFactory
from shoal.sinks.multi import MultiSink
from shoal.sinks.registry import open_sink

__all__ = [
    "CheckpointedSink",
    "LastFlush",
    "MultiSink",
    "Sink",
    "SinkCapabilities",
    "SinkFactory",
    "open_sink",
]
