"""The frontier of a fleet: Lua scripts in Redis or Valkey that any number of workers call.

It has no owner process. The death of a worker is detected through its leases, which expire; what other
backends do when their owner restarts has no counterpart here. `keys.py` documents the key space. A script is
a file in `lua`, named after what it does, together with the files of `lua/fragments` that it needs
(`scripts.py`).
"""

from shoal.frontier.redis.frontier import RedisFrontier

__all__ = ["RedisFrontier"]
