"""The embedded frontier: SQLite for what must survive, RAM for what can be rebuilt, one owner process.

On disk, a request is one row from its acceptance to its end, in the order of acceptance. The seen-set and
the requests that have ended are append-only logs. RAM holds the fingerprints (nine bytes each), the ids of
the waiting requests (eight bytes each), and a scheduler that never looks at a host that is not due. Leasing
writes one row per batch and leaves the rows of the requests unchanged. So a lease that is never settled
needs no undo: at the next start, its row shows which requests to charge with a crash.
"""

from shoal.frontier.sqlite.frontier import SqliteFrontier
from shoal.frontier.sqlite.reader import SqliteReader

__all__ = ["SqliteFrontier", "SqliteReader"]
