"""An output that is there all at once or not at all: written beside its place, then moved into it."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shoal.model.errors import Misconfigured
from shoal.model.page import Item
from shoal.sinks.contract import Sink
from shoal.sinks.files import translate_errors
from shoal.sinks.registry import resolve

BATCH = 4096  # items in memory before they are written


class AtomicOutput:
    """Items on their way into a file of any known format."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting = 0
        self.count = 0

    def write(self, items: Sequence[Item]) -> None:
        self._sink.write(items)
        self.count += len(items)
        self._waiting += len(items)
        if self._waiting >= BATCH:
            self._sink.flush()
            self._waiting = 0


@contextmanager
def drafting(out: str) -> Iterator[Path]:
    """Give a path to write to; what is there at the end replaces `out`, and after an error nothing does.

    A folder is never replaced: somebody may have put other things into it.
    """
    target = Path(out)
    if target.is_dir():
        raise Misconfigured(f"output {out}: there is a folder already; move it away or name another output")
    with translate_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".shoal-draft-", dir=target.parent))
    try:
        yield folder / target.name
        with translate_errors(target):
            # Some formats need several files; the one that was asked for comes last.
            for made in sorted(folder.iterdir(), key=lambda path: path.name == target.name):
                made.replace(target.parent / made.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def drafting_items(out: str) -> Iterator[AtomicOutput]:
    """Write items to `out`, in the format that its ending says; `-` is standard output.

    What has gone to standard output or to a database stays there after an error.
    """
    resolved = resolve(out)
    if not resolved.capabilities.is_file:
        yield from _filled(resolved.factory.open(out, fsync=False, overwrite=False))
        return
    with drafting(out) as draft:
        yield from _filled(resolved.factory.open(str(draft), fsync=False, overwrite=False))


def _filled(sink: Sink) -> Iterator[AtomicOutput]:
    try:
        sink.restore(None)
        yield AtomicOutput(sink)
        sink.finish()
    finally:
        sink.close()
