"""Repair: what a script that was cut short has left behind, put right.

Scripts add before they remove, so one that dies half way (a slot that moves away, a bug) leaves something
twice, and counters, hosts or lines that do not agree with the data. From the data everything can be told
again. Shard by shard (`run.py`):

 1. nobody may change the shard while leases and hosts are looked at: each batch gets its deadline, each host
    learns what is on the wire and what its lanes hold, each lane its place in line;
 2. others go on while every request is looked at: what is in two places is left in one, what was forgotten to
    have been seen is remembered. Each is checked and done in one step;
 3. nobody may change the shard while it is counted; then its counters are written.

A shard that is frozen answers FROZEN, and whoever asked waits: seconds, for ten thousand hosts. If the
process that has frozen it dies, it thaws by itself (frozen.lua).

Nothing is deleted that is not somewhere else too. What cannot be told again are numbers with nothing behind
them: retries, crashes, duplicates, items brought.
"""

from shoal.frontier.redis.repair.run import repair

__all__ = ["repair"]
