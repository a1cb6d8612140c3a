"""Names of the checkpoints that an embedded crawl keeps in its frontier."""


def archive_key(crawl: str) -> str:
    return f"{crawl}/archive"


def sinks_key(crawl: str) -> str:
    return f"{crawl}/sinks"


def rejects_key(crawl: str) -> str:
    return f"{crawl}/rejects"
