"""What a crawl occupies in its store."""

import msgspec


class CrawlFootprint(msgspec.Struct, frozen=True):
    """What deleting a crawl removes (the counts), and what stays (outputs and archive)."""

    crawl: str
    accepted: int  # URLs that the crawl knows
    open: int  # of them, URLs that have not ended
    dead: int  # of them, URLs that were given up
    outputs: tuple[str, ...]  # that stay, without secrets
    archive: str  # where its pages stay; empty: unknown
    scattered: bool = False  # each worker has a part of the archive in its local folder
    unwritten: int = 0  # pages whose items are not in every output yet
