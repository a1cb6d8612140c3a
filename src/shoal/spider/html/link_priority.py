"""The default priority of a link: hubs first, then other pages, then deep pagination.

A hub, a page that lists others, leads to more new links than any other page; the hundredth page of a list
leads to few that cannot be reached otherwise. The priority depends on the URL alone, so it is predictable and
the same on whatever page the link is found:

    4  hub: the path ends in "/" or in an index, and there is no query
    5  everything else
    6  page 2 to 9 of a list, by a name such as `page=` or `/page/` (an offset counts ten to a page)
    7  page 10 to 99
    8  page 100 and beyond
"""

import re

from shoal.model.request import NORMAL

HUB = NORMAL - 1
ENTRIES = 10  # assumed entries per page of a list, where the URL has an offset

_INDEX = ("index.", "default.", "home.")
_page_of_query = re.compile(
    r"(?:^|&)(?:(?:page|paged|pg|pageno|page_no|pagenum|pagenumber|seite|pagina)=(\d{1,9})"
    r"|(?:start|offset|skip)=(\d{1,9}))(?!\d)",
    re.IGNORECASE,
).search
_page_of_path = re.compile(r"/(?:page|seite|pagina)[/_-]?(\d{1,9})(?=[/.]|$)").search


def link_priority(url: str) -> int:
    """Return the priority of a link to a canonical URL."""
    # Called for every new link: substring searches first, which decide most of them.
    path, _, query = url.partition("?")
    if query or "/page" in path or "/seite" in path or "/pagina" in path:
        number = _page_number(path, query)
        if number is not None:
            return NORMAL + (number > 1) + (number >= 10) + (number >= 100)
    last = path[path.rindex("/") + 1 :]
    return HUB if not query and (not last or last.startswith(_INDEX)) else NORMAL


def _page_number(path: str, query: str) -> int | None:
    """Return the page number of a list that a URL names; None if it names none."""
    if found := _page_of_query(query):
        return int(found[1]) if found[1] else int(found[2]) // ENTRIES + 1
    return int(found[1]) if (found := _page_of_path(path)) else None
