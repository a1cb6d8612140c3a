"""Sites: all hosts of one registrable domain, such as www.example.co.uk and a.b.example.co.uk.

A site with a wildcard in its DNS has any number of hosts, so what is counted per site cannot be evaded by
them. The list of public suffixes comes with the package `publicsuffixlist`; nothing is downloaded.
"""

from functools import lru_cache

from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()  # takes 50 ms: created when the first site is computed


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the registrable domain of a host key; the host itself for addresses and public suffixes."""
    name = host if host.endswith("]") else host.partition(":")[0]
    if not name or name.startswith("[") or name[-1].isdigit():
        return host
    return _suffixes().privatesuffix(name) or host
