"""The factory of the PostgreSQL sink. It is separate so that only opening an output needs the driver."""

from contextlib import closing
from typing import TYPE_CHECKING

from shoal.model.errors import Misconfigured, Rejected, Unavailable
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
        name = public_name(dsn)
        raise Misconfigured(f"output {name!r}: run  pip install 'shoal[postgres]'  first") from error
    return PostgresSink(dsn, overwrite=overwrite)


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


FACTORY = SinkFactory(
    open=open_postgres, open_checkpointed=open_postgres, recount=recount_postgres, shared=True
)
