"""The interfaces of sinks, and the description by which a package provides one.

The contract that every sink keeps is the text of `shoal.sinks`; `shoal.testing.contracts.sink` checks it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from shoal.model.page import Item


class Sink(Protocol):
    """Writes the items of one crawl to one output."""

    def restore(self, checkpoint: bytes | None) -> None: ...
    def write(self, items: Sequence[Item]) -> None: ...
    def flush(self) -> bytes: ...
    def finish(self) -> bytes: ...
    def close(self) -> None: ...


class LastFlush(msgspec.Struct, frozen=True):
    """What an output has stored with its last flush."""

    checkpoint: bytes
    position: bytes  # of the fleet's output writer, opaque to the sink


class CheckpointedSink(Protocol):
    """A sink that stores its checkpoint itself, with the position of the fleet's output writer.

    `flush` and `finish` store items, checkpoint and position in one transaction: after a crash, either all
    three are in the output or none. `last_flush` returns what was stored, or None for an output that has no
    position.

    Two processes may open the same output: a writer that was suspended does not know that another one has
    replaced it. If another process has flushed since this one called `last_flush`, `restore` and `flush`
    must raise `Unavailable` and change nothing. The writer then opens the output again.
    """

    def last_flush(self) -> LastFlush | None: ...
    def restore(self, checkpoint: bytes | None) -> None: ...
    def write(self, items: Sequence[Item]) -> None: ...
    def flush(self, position: bytes) -> bytes: ...
    def finish(self, position: bytes) -> bytes: ...
    def close(self) -> None: ...


class SinkCapabilities(msgspec.Struct, frozen=True):
    """What can be done with an output beyond writing items to it."""

    is_file: bool = False  # a path on one machine: a file or a folder that can be renamed
    shared: bool = False  # every machine of a fleet reaches the same output
    keeps_checkpoint: bool = False  # it stores its checkpoint itself: `open_checkpointed`
    countable: bool = False  # its items can be counted again: `recount`

    @property
    def fleet(self) -> bool:
        """Whether a fleet can write it: the checkpoint is in the output, or in a file beside it."""
        return self.keeps_checkpoint or self.is_file


class OpenSink(Protocol):
    def __call__(self, output: str, /, *, fsync: bool, overwrite: bool) -> Sink: ...


class OpenCheckpointed(Protocol):
    def __call__(self, output: str, /, *, fsync: bool, overwrite: bool) -> CheckpointedSink: ...


class Recount(Protocol):
    def __call__(self, output: str, checkpoint: bytes, /) -> int | None: ...


class IsEmpty(Protocol):
    def __call__(self, output: str, /) -> bool: ...


class ReadItems(Protocol):
    def __call__(self, output: str, /) -> Iterator[Item]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFactory:
    """A kind of sink, found by the suffix of a path or by the scheme of an address.

    A package provides one as an entry point of the group `shoal.sinks`, under a suffix (`.myfmt`) or a scheme
    (`mydb`). `open` and `open_checkpointed` must not touch the output: `restore` and `last_flush` do.

    `recount` returns the items that the output holds up to a checkpoint, None if the output cannot be read
    from this machine. It raises `Rejected` if the output is not as the crawl has left it. It must not write
    or lock anything: a crawl may be writing the output.

    `read` yields the items of an output in the order of writing, for `shoal export`. It raises
    `Misconfigured` if the output cannot be read, and locks nothing either.

    `is_empty` returns whether a file that exists is one that Shoal has begun and put no item into, as a full
    disk leaves it. None: a file with at least one byte holds something.
    """

    open: OpenSink
    open_checkpointed: OpenCheckpointed | None = None
    recount: Recount | None = None
    read: ReadItems | None = None
    is_empty: IsEmpty | None = None
    keyed: bool = False  # an item replaces an earlier one with the same key
    shared: bool = False  # see SinkCapabilities; a path is never shared
    folder: bool = False  # a path that ends in a slash is a folder of files
