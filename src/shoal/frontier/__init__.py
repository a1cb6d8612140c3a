"""The frontier: which request goes next, and what has become of every other one.

This is the contract that every backend keeps. `tests/contract/` runs it, `frontier/memory.py` is its
model.

States. A request that was accepted is in exactly one of

    waiting     may be leased as soon as its host is due
    delayed     may be leased after an instant (a retry, a rest)
    leased      held by a worker until a deadline
    parsing     fetched and archived; its links and items are still to come
    done, gone, dead, filtered        for good (a dead letter can be replayed)

and `accepted` equals the sum of the eight, always. Counters are O(1) to read.

open_crawl(name) creates a crawl or takes it up again, and says which. Only crawls that were opened take part
in what follows. drop_crawl(name) deletes one that is not open, but for what conditional requests of its next
generation need, `validators`; with `entirely`, those go as well. A crawl has a small area for values of its
own, `crawl_get` and `crawl_set`.

add(crawl, links) accepts what the crawl has not seen, by fingerprint, and counts the rest as duplicates.
One atomic step: no caller can see a request that is seen but not queued, or queued twice. Repeating an
`add` whose answer was lost changes nothing. A crawl may have a budget, the number of requests that one host
can bring: what comes beyond it is not accepted, and counted in `over_budget`.

lease(holder, limit, ttl, pools) hands out requests whose host is due: best priority first; within a
priority the lane that was served least recently; within a lane the request that was accepted first. A host
that is not due costs nothing and holds nobody up. The unit of scheduling is the lane, (crawl, host, pool);
the pace belongs to the host and is shared by all its lanes. A grant never exceeds the host's pace: GCRA with
an interval and a burst, and a number of requests out at once. What `lease` hands out counts as an attempt
from that moment. Unless the grant is full, it says how long to wait before asking again can help.

settle(settlements) ends attempts. A settlement and its links are applied together or not at all; those
whose lease was settled or reclaimed before are refused and named in the answer, and have no effect; `holds`
says so in advance. `Released` gives a request back as if it had never been leased. A settlement of a request
that never left gives its turn back as well, unless a later one was taken or the pace changed meanwhile.

acknowledge(...) ends pages that were settled as `Fetched`. Embedded, a settlement, an acknowledgement and
the checkpoints of the sinks can share one transaction: `commit`. parsing(crawl) hands out the pages that
nobody is parsing: those that a dead process left, and replayed ones. A page whose process died is charged
with a strike; one with strikes is handed out alone; with `max_crashes` of them it is dead, class `poison`.

landed(leases) says that a request is off the wire although its lease is not settled yet: the host's
number of requests at once goes down. A hint; settling implies it.

extend(leases, ttl) moves deadlines. A lease whose deadline has passed is reclaimed by the next `lease`,
`extend` or `reclaim`: the request waits again, one priority class lower, with one crash on its account; with
`max_crashes` of them it is dead, class `poison`. A request with a crash on its account is a suspect: suspects
wait in a lane of their own, and a holder has at most one suspect at a time, so that the neighbours of a
poisonous request do not share the blame.

Retries wait in `delayed`, lose one priority class per attempt that is charged, keep their place in the
order of acceptance, and keep their identity: they are never new.

replay(crawl) puts dead letters back with a clean slate; where the page is kept and is what was at fault
(`parse_error`, `poison`), it is parsed again and not fetched. purge(crawl) throws dead letters away: their
requests stay dead and seen, and cannot be replayed.

Hosts can be paused, rested until an instant, given a pace of their own, and slow down by themselves when
they push back (`model/slowdown.py`). A pace that was given to a host (`host_set`) applies until it is taken
back (`host_clear`), whatever the crawls say; without one, the slowest of the crawls' paces applies, where a
crawl may name some hosts that have another one (`open_crawl(hosts=...)`). All of that survives a restart;
the spent part of a burst is assumed whole: after a restart every host first rests one interval. A change of
pace leaves no credit either.

A clock that is set back holds nobody up for longer than one turn; one that jumps forward makes leases run
out early, which costs attempts and never correctness.

After kill -9 at any instant: everything that `add`, `settle`, `commit` returned from is there; what was
leased is waiting again with a crash on its account; nothing else has changed.
"""

from shoal.frontier.results import (
    Added,
    Audit,
    Committed,
    Counts,
    DeadLetter,
    HostView,
    Opened,
    RequestHistory,
    StoredRobots,
    Tried,
    Unparsed,
    Validator,
)

__all__ = [
    "Added",
    "Audit",
    "Committed",
    "Counts",
    "DeadLetter",
    "HostView",
    "Opened",
    "RequestHistory",
    "StoredRobots",
    "Tried",
    "Unparsed",
    "Validator",
]
