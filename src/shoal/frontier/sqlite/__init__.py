"""The embedded frontier: SQLite for what must survive, RAM for what can be rebuilt, one owner.

On disk, a request is one row in the order of acceptance, from its acceptance to its end; what was seen and
what has ended are append-only logs. In RAM are the fingerprints (nine bytes each), the ids of what waits
(eight bytes each), and a scheduler that never looks at a host that is not due. Leasing writes one row per
batch; the requests' own rows stay where they are, so a lease that nobody settles needs no undoing: at the
next start its row says whom to charge.
"""

from shoal.frontier.sqlite.frontier import SqliteFrontier
from shoal.frontier.sqlite.reader import SqliteReader

__all__ = ["SqliteFrontier", "SqliteReader"]
