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

_INDEX = ("index.", "default.", "home.")
_page_of_query = re.compile(
    r"(?:^|&)(?:(?:page|paged|pg|pageno|page_no|pagenum|pagenumber|seite|pagina)=(\d{1,9})"
    r"|(?:start|offset|skip)=(\d{1,9}))(?!\d)",
    re.IGNORECASE,
).search
_page_of_path = re.compile(r"/(?:page|seite|pagina)[/_-]?(\d{1,9})(?=[/.]|$)").search


def rank(url: str) -> int:
    """Give the priority of a link to a canonical URL."""
    # Asked for every link that is new: plain searches for text first, which decide most of them.
    path, _, query = url.partition("?")
    if query or "/page" in path or "/seite" in path or "/pagina" in path:
        number = _numbered(path, query)
        if number is not None:
            return NORMAL + (number > 1) + (number >= 10) + (number >= 100)
    last = path[path.rindex("/") + 1 :]
    return HUB if not query and (not last or last.startswith(_INDEX)) else NORMAL


def _numbered(path: str, query: str) -> int | None:
    """Say which page of a list a URL means; None: it is no list."""
    if found := _page_of_query(query):
        return int(found[1]) if found[1] else int(found[2]) // ENTRIES + 1
    return int(found[1]) if (found := _page_of_path(path)) else None
