"""One running crawl: leases go to fetch slots, pages come back through the parse children, and the committer
makes the result durable.

    frontier ──▶ lease_feed ──▶ attempts ──▶ parsing ──▶ leases ──▶ commit ──▶ frontier, outputs
                 takes leases   fetches      has pages   records    makes many
                                             parsed      the end    durable at once

`leases` holds every lease from its grant until its outcome is handed in. `crawl` starts and ends the loops,
extends leases and saves state. `progress` reports. `stations` lists what they all talk to. `session` opens
the stations; `embedded` and `shared` are its two strategies, and the only modules that know who else runs
the same crawl.

    runs          what a command does to a crawl that exists: resume, extend, retry, refuse
    embedded_run  a crawl in a folder, from its command to its end
    generations   what one generation takes over from the one before
    traps         links that lead into a trap: patterns, near-duplicates, identical pages
    fetch_log     a row for each attempt
    logs          a line per request (`-v`), and spans for tracing

Leases that are not settled never exceed the concurrency plus one group commit. That number bounds memory, and
what a kill can cost: a page that was fetched and not committed is fetched again.

Only taking new leases ever waits. Archiving a page, adding its links and committing never block on one
another, so the cycle frontier → fetch → parse → frontier cannot deadlock.
"""
