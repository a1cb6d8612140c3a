"""Count the items of outputs again, read-only and up to a checkpoint.

What is beyond the checkpoint is not part of the crawl yet: a kill may have left it, and the next run cuts
it off.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from shoal.model.errors import Misconfigured
from shoal.sinks.names import STDOUT
from shoal.sinks.registry import resolve


def outputs(checkpoint: bytes | None) -> Mapping[str, bytes]:
    """Return the outputs of a crawl, each with its part of the checkpoint, without standard output."""
    known = {} if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=dict[str, bytes])
    return {path: own for path, own in known.items() if path != STDOUT}


def recount(output: str | Path, checkpoint: bytes) -> int | None:
    """Count the items that an output holds; None: it cannot be counted from this machine.

    Raise `Rejected` if the output is not as the crawl has left it: missing, shorter, ending within an item,
    or with other rows than were written.
    """
    try:
        count = resolve(str(output)).factory.recount
    except Misconfigured:  # the package of its sink is not installed here
        return None
    return None if count is None else count(str(output), checkpoint)
