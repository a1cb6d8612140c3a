"""A second crawler, as plain as can be: one connection, breadth first, everything in memory."""

from collections import deque
from http.client import HTTPConnection
from urllib.parse import urljoin, urlsplit

from tests.corpora.links import links_by_lxml


def walk(start: str) -> set[str]:
    """Ask for everything that can be reached on a host, and give what was asked for, as path and query."""
    host = urlsplit(start).netloc
    connection = HTTPConnection(host)
    queue = deque([start])
    seen = {start}
    while queue:
        url = queue.popleft()
        for link in _leads_to(connection, url):
            if link not in seen and urlsplit(link).netloc == host:
                seen.add(link)
                queue.append(link)
    connection.close()
    return {_target(url) for url in seen}


def _leads_to(connection: HTTPConnection, url: str) -> set[str]:
    connection.request("GET", _target(url))
    response = connection.getresponse()
    body = response.read()
    if response.status in (301, 302, 307, 308):
        return {urljoin(url, response.headers["location"])}
    if response.status == 200 and response.headers.get_content_type() == "text/html":
        return links_by_lxml(body, url)
    return set()


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
