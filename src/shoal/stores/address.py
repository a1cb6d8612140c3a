"""What kind of store a text names. This needs none of the extras that some stores need."""

REDIS = ("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster")


def is_redis(store: str) -> bool:
    """Tell the address of a Redis store from the path of a folder."""
    scheme, separator, _ = store.partition("://")
    return bool(separator) and scheme.lower() in REDIS
