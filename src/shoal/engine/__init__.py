"""One crawl, running: leases go out to fetch slots, pages come back through the parse children, and the
committer makes it all durable.

    frontier ──▶ feed ──▶ slots ──▶ attempts ──▶ parsing ──▶ leases ──▶ commit ──▶ frontier, outlet
                 takes    queue     fetches      has pages   handed     makes many
                 leases   them      once         parsed      in         durable at once

`leases` knows what is out at any time, from the grant until its outcome is handed in. `upkeep` extends it,
`picture` shows it, `running` starts and ends the loops. `stations` lists what they all talk to; who else runs
the same crawl is known to `ownership` alone.

What is leased and not yet settled never exceeds the concurrency plus one group commit. That single number
bounds memory, and what a kill can cost: a page that was fetched and not committed is fetched again.

Only taking new leases ever waits. Landing a page, adding its links and committing never block on one another,
so the cycle frontier → fetch → parse → frontier cannot lock up.
"""

from shoal.engine.crawl import Crawl

__all__ = ["Crawl"]
