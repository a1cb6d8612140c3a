"""Which links go first when nobody says: hubs, then the rest, then deep pagination.

A hub, a page that lists others, brings more new links than any other page, and the hundredth page of a list
hardly any that a better way does not lead to. The URL alone tells them apart, so that the answer can be
foreseen and is the same wherever the link is found:

    4  hub: the path ends in "/" or in an index, and there is no query
    5  everything else
    6  page 2 to 9 of a list, by a name such as `page=` or `/page/` (an offset counts ten to a page)
    7  page 10 to 99
    8  page 100 and beyond
"""

import re

from shoal.model.request import NORMAL

HUB = NORMAL - 1
ENTRIES = 10  # of a list on one page, where its URL says how many to skip

_index = re.compile(r"/(?:(?:index|default|home)\.\w+)?$", re.IGNORECASE).search
_page = re.compile(
    r"[?&](?:page|paged|pg|pageno|page_no|pagenum|pagenumber|seite|pagina)=(\d{1,9})(?!\d)"
    r"|/(?:page|seite|pagina)[/_-]?(\d{1,9})(?=[/.?]|$)",
    re.IGNORECASE,
).search
_skipped = re.compile(r"[?&](?:start|offset|skip)=(\d{1,9})(?!\d)", re.IGNORECASE).search


def rank(url: str) -> int:
    """Give the priority of a link to a canonical URL."""
    if found := _page(url):
        number = int(found[1] or found[2])
    elif found := _skipped(url):
        number = int(found[1]) // ENTRIES + 1
    else:
        return HUB if "?" not in url and _index(url) else NORMAL
    return NORMAL + (number > 1) + (number >= 10) + (number >= 100)
