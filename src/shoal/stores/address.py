"""What kind of store a text names. This needs none of the extras that some stores need."""

import os
from difflib import get_close_matches

from shoal.model.errors import Misconfigured
from shoal.model.schemes import REDIS_SCHEMES


def is_redis(store: str) -> bool:
    """Tell the address of a Redis store from the path of a folder."""
    scheme, separator, _ = store.partition("://")
    return bool(separator) and scheme.lower() in REDIS_SCHEMES


def check_store(store: str) -> None:
    """Raise `Misconfigured` for what looks like the address of a server and is none: no folder is meant.

    Only the scheme is named: the rest may carry a password.
    """
    scheme, colon, rest = store.partition(":")
    if is_redis(store) or not colon or os.path.exists(store):
        return
    if rest.startswith("//"):
        near = get_close_matches(scheme.lower(), REDIS_SCHEMES, 1)
        meant = f"did you mean {near[0]}://? " if near else ""
        raise Misconfigured(
            f"store: no backend for {scheme!r}; {meant}known: a folder, {', '.join(REDIS_SCHEMES)}"
        )
    if scheme.lower() in REDIS_SCHEMES:
        raise Misconfigured(f"store: {scheme}: is followed by two slashes, as in {scheme}://HOST")
    if rest.isdigit():
        raise Misconfigured(f"store: there is no folder {store}; a server is named redis://{store}")


def shown_store(store: str) -> str:
    """Name a store for people, without the password that its address may hold."""
    if not is_redis(store):
        return store
    from shoal.redis_client import parse

    return str(parse(store))
