"""The frontier decides which request is fetched next, and records what happened to every other one.

This is the contract of every backend. `contract.py` has its signatures, `shoal.testing.contracts.frontier`
its tests, and `tests/model` an unoptimised implementation that the backends are compared with.

States. An accepted request is in exactly one of eight states, and `accepted` always equals their sum:

    waiting     may be leased as soon as its host is due
    delayed     may be leased after an instant (a retry, a rest)
    leased      held by a worker until a deadline
    parsing     fetched and archived, not parsed yet
    done, gone, dead, filtered        final (a dead letter can be replayed, `readmit` below)

Transitions. `settle` and `acknowledge` are implemented four times, and all follow this table:
`sqlite/settle.py`, `redis/lua/settle.lua` and `redis/lua/acknowledge.lua`, `redis/packing.py` (which decides
what the scripts receive) and `tests/model/settle.py`.

    from        event                               to          attempts    also
    -           add                                 waiting     0
    waiting     lease                               leased                  takes a turn of the host
    leased      settle Done                         done                    page record
    leased      settle Fetched                      parsing     + 1         page record; announced to parse
    leased      settle Gone                         gone
    leased      settle Filtered                     filtered                counted by rule
    leased      settle Dead                         dead        + 1         dead letter
    leased      settle Retry(charged)               delayed     + 1         one priority class lower
    leased      settle Retry(not charged)           delayed     same        rests + 1; `rest` rests the host
    leased      settle Retry, refused alone         delayed     + 1         the host neither rests nor slows
    leased      settle Released                     waiting     same        as if never leased
    leased      deadline passes                     waiting     + 1         crashes + 1; now a suspect
    leased      deadline passes, max_crashes        dead        + 1         class `poison`
    delayed     its instant comes                   waiting     same
    parsing     acknowledge Done                    done        same        page record
    parsing     acknowledge Dead                    dead        same        dead letter with its page
    parsing     its process dies                    parsing     same        strikes + 1
    parsing     its process dies, max_crashes       dead        same        class `poison`
    dead        replay                              waiting     0           all counts reset
    dead        replay, page archived and at fault  parsing     same        strikes reset
    filtered    readmit, by robots.txt or held      waiting     0           counts reset; still seen
    dead        purge                               dead        same        the dead letter is deleted

A `Retry` without delay goes to `waiting`, a `Released` with a delay to `delayed`. Either may replace the
request by itself with another level or pool (`instead`): its identity, host, place and counts stay, and it
waits in the lane of its new pool.

Counts. `reader.counts` is O(1) in the number of requests.

Crawls. `crawls.open(name)` creates or resumes a crawl and returns which of the two. Everything below
concerns open crawls only. `crawls.delete(name)` deletes a crawl that is not open. Unless `entirely`, it ends
a generation: the next crawl of that name keeps the key of its fingerprints and what its generations yielded
(the value `yields`), and finds the records of its pages (`earlier_pages`, `reader.histories`). A crawl has a
small area for values: `crawls.set_value`, `reader.value`.

Adding. `add(crawl, links)` accepts the links that the crawl has not seen, by fingerprint, and counts the
others as duplicates. It is atomic: no caller can observe a request that is seen but not queued, or queued
twice. Repeating an `add` whose reply was lost changes nothing. A crawl may have a budget, the number of
requests accepted per host. Links beyond it are not accepted, and are counted in `over_budget`.

Leasing. `lease(holder, limit, ttl, pools)` returns requests whose host is due: best priority first; within a
priority, from the lane that was served least recently; within a lane, the request that was accepted first. A
host that is not due costs nothing and delays no other. The unit of scheduling is the lane (crawl, host,
pool). The pace belongs to the host and is shared by all its lanes. A grant never exceeds the pace of a host:
GCRA with an interval and a burst, and a maximum number of requests in flight. A leased request counts as an
attempt from that moment. Unless the grant is full, it contains how long to wait until another call can
return more.

Settling. `settle(settlements)` ends attempts. A settlement and its links are applied together or not at all.
Settlements of leases that were settled or reclaimed before are rejected without effect, and returned in
`stale`; `holds` tells so in advance. A settlement of a request that was never sent also returns its turn,
unless a later turn was taken or the pace has changed.

Parsing. `acknowledge(...)` ends the parsing of pages that were settled as `Fetched`. In the embedded
backend, a settlement, an acknowledgement and the checkpoints of the sinks share one transaction: `commit`.
`parsing(crawl)` yields the pages that no process is parsing: those of a dead process, and replayed ones. If
a process dies, the pages that it was parsing get a strike. A page with strikes is yielded alone, so that the
next crash is charged to it only.

Landing. `mark_landed(leases)` reports that requests have left the wire although their leases are not settled,
so that the host's number of requests in flight goes down. It is a hint; settling implies it.

Expiry. `extend(leases, ttl)` moves deadlines. A lease whose deadline has passed is reclaimed by the next
`lease`, `extend` or `reclaim`. A request that was charged with a crash is a suspect. Suspects wait in a
separate lane, and a holder has at most one suspect at a time, so that other requests are not charged for the
crash of a poisonous one. The engine runs a request that was charged twice alone (`engine/lease_feed.py`).

Retries wait in `delayed`, lose one priority class per charged attempt, and keep their place in the order of
acceptance and their identity: they are never new.

Hosts. A host can be paused, rested until an instant, given another pace, and slows down automatically when
it pushes back (`model/adaptive_delay.py`). A pace from `hosts.set` applies until `hosts.clear`, whatever
pace the crawls have. Without one, the slowest of the crawls' paces applies; a crawl can have another pace
for some hosts (`crawls.open(hosts=...)`). All of this survives a restart, but the burst does not: after a
restart every host first rests one interval. A change of pace leaves no credit either.

Clock. A clock that is set back delays no host by more than one turn. A clock that jumps forward expires
leases early, which costs attempts and never correctness.

Crash. After kill -9 at any instant, everything that `add`, `settle` and `commit` have returned from is
stored. What was leased is waiting again, charged with a crash. Nothing else has changed.
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
]
