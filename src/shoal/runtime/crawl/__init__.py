"""One crawl, running: leases go out to fetch slots, pages come back through the parse children, and the
committer makes it all durable.

What is leased and not yet settled never exceeds the concurrency plus one group commit. That single number
bounds memory, and what a kill can cost: a page that was fetched and not committed is fetched again.

Only taking new leases ever waits. Landing a page, adding its links and committing never block on one another,
so the cycle frontier → fetch → parse → frontier cannot lock up.
"""

from shoal.runtime.crawl.running import Crawl

__all__ = ["Crawl"]
