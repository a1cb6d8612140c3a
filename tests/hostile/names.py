"""The names of all cases, as the name server answers them."""

import re

from tests.site.name_server import NXDOMAIN, SERVFAIL

REBOUND: set[str] = set()  # names that have been visited and lead elsewhere from now on


def zone(name: str) -> int | list[str]:
    if name == "nxdomain.test":
        return NXDOMAIN
    if name == "servfail.test":
        return SERVFAIL
    if name == "rebinding.test":
        return ["0.0.0.0"] if name in REBOUND else ["127.0.0.1"]
    if name == "forbidden.test":
        return ["127.0.0.1", "0.0.0.0"]
    if re.fullmatch(r"(\w+\.)+wild\.test|named\.test|warm\d+\.test", name):
        return ["127.0.0.1"]
    return []
