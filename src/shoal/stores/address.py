"""What kind of store a text names. This needs none of the extras that some stores need."""

REDIS = ("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster")


def is_redis(store: str) -> bool:
    """Tell the address of a Redis store from the path of a folder."""
    scheme, separator, _ = store.partition("://")
    return bool(separator) and scheme.lower() in REDIS


def shown_store(store: str) -> str:
    """Name a store for people, without the password that its address may hold."""
    if not is_redis(store):
        return store
    from shoal.stores.redis import parse

    return str(parse(store))
