"""URL schemes of the stores that are servers. Any other store is a folder."""

REDIS_SCHEMES = ("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster")
