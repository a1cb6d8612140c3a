"""Repair: correct what an aborted script has left behind.

Scripts add before they remove, so one that is aborted half way (a slot that moves away, a bug) leaves a
request in two places, and counters, hosts or schedules that do not match the data. All of them can be
recomputed from the data. Shard by shard (`run.py`):

 1. Freeze the shard and correct leases and hosts: each batch gets its deadline, each host its number of
    requests in flight and the contents of its lanes, each lane its place in the schedule.
 2. Release the shard and read every request: one that is in two places stays in one, one that is missing in
    the seen-set is added. Each correction checks and changes in one atomic step.
 3. Freeze the shard again, recount it, and write its counters.

Calls to a frozen shard fail with FROZEN and are retried by the client: for seconds, with ten thousand hosts.
If the repairing process dies, the freeze expires (require_frozen.lua).

Nothing is deleted that is not in another place too. Numbers without data cannot be recomputed: retries,
crashes, duplicates, items.

    run      the order of the steps
    shard    the shard under repair, and the report of faults
    scan     read every request, lane and chunk; keep each request in one place
    fixes    correct leases, hosts, pages, dead letters and the seen-set
    recount  recompute the counters
"""

from shoal.frontier.redis.repair.run import repair_crawls, repair_shard

__all__ = ["repair_crawls", "repair_shard"]
