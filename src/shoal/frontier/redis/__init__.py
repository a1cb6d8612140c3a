"""The frontier of a fleet: scripts in Redis or Valkey that any number of workers call.

Nobody owns it. A worker that dies is noticed by its leases, which run out; what other backends do when
their owner starts anew has no counterpart here. `keys.py` documents the key space; a script is a file in
`lua`, named after what it does, and those of `lua/fragments` that it needs (`scripts.py`).
"""

from shoal.frontier.redis.frontier import RedisFrontier

__all__ = ["RedisFrontier"]
