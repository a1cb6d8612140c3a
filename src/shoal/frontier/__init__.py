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

add(crawl, links) accepts what the crawl has not seen, by fingerprint, and counts the rest as duplicates.
One atomic step: no caller can see a request that is seen but not queued, or queued twice. Repeating an
`add` whose answer was lost changes nothing.

lease(holder, limit, ttl, pools) hands out requests whose host is due, best priority first; within a
priority the host that has waited longest, and within a host the request that came first. A host that is
not due costs nothing and holds nobody up. The unit of scheduling is the lane, (crawl, host, pool); the
pace belongs to the host and is shared by all its lanes. A grant never exceeds the host's pace: GCRA with
an interval and a burst, and a number of requests out at once. What `lease` hands out counts as an attempt
from that moment. If nothing is due, the grant says how long to wait.

settle(settlements) ends attempts. A settlement and its links are applied together or not at all; those
whose lease has run out or changed hands are refused and named in the answer, and have no effect.
`Released` gives a request back as if it had never been leased.

acknowledge(...) ends pages that were settled as `Fetched`. Embedded, a settlement, an acknowledgement and
the checkpoints of the sinks can share one transaction: `commit`.

landed(leases) says that a request is off the wire although its lease is not settled yet: the host's
number of requests at once goes down. A hint; settling implies it.

extend(leases, ttl) moves deadlines. A lease that runs out is reclaimed: the request waits again, one
priority class lower, with one crash on its account; with `max_crashes` of them it is dead, class
`poison`. A request with a crash on its account is a suspect: a holder has at most one suspect at a time,
so that the neighbours of a poisonous request do not share the blame.

Retries wait in `delayed`, lose one priority class per attempt, and keep their identity: they are never
new.

Hosts can be paused, rested until an instant, given a pace of their own, and slow down by themselves when
they push back (`model/slowdown.py`). All of that survives a restart; the spent part of a burst is assumed
whole: after a restart every host first rests one interval.

After kill -9 at any instant: everything that `add`, `settle`, `commit` returned from is there; what was leased is
waiting again with a crash on its account; nothing else has changed.
"""
