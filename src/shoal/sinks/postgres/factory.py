"""The factory of the PostgreSQL sink. It is separate so that only opening an output needs the driver."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import SinkFactory
from shoal.sinks.names import public_name

if TYPE_CHECKING:
    from shoal.sinks.postgres.sink import PostgresSink


def open_postgres(dsn: str, /, *, fsync: bool = False, overwrite: bool = False) -> "PostgresSink":
    """Open the sink of a table; `fsync` changes nothing, because the server decides when it syncs.

    Raise `Misconfigured` if the driver is not installed.
    """
    try:
        from shoal.sinks.postgres.sink import PostgresSink
    except ImportError as error:
        raise _missing(dsn) from error
    return PostgresSink(dsn, overwrite=overwrite)


def _missing(dsn: str) -> Misconfigured:
    return Misconfigured(f"output {public_name(dsn)!r}: run  pip install 'shoal[postgres]'  first")


def recount_postgres(output: str, checkpoint: bytes, /) -> int | None:
    """Count the items on the server.

    The store has no passwords: the caller needs one in the environment (PGPASSWORD, PGPASSFILE).
    """
    try:
        sink = open_postgres(output)
    except Misconfigured:
        return None
    with closing(sink):
        try:
            return sink.recount(checkpoint)
        except Unavailable:
            return None
        except Misconfigured as error:
            raise Rejected(str(error)) from None


def read_postgres(output: str, /) -> Iterator[Item]:
    """Return the items of a table in the order of arrival."""
    try:
        from shoal.sinks.postgres.reader import read_items
    except ImportError as error:
        raise _missing(output) from error
    return read_items(output)


FACTORY = SinkFactory(
    open=open_postgres,
    open_checkpointed=open_postgres,
    recount=recount_postgres,
    read=read_postgres,
    keyed=True,
    shared=True,
)
