"""Ranking: hubs first, then the rest, then deep pagination, by the URL alone."""

import pytest
from tests.unit.spider.pages import page

from shoal.spider.html.link_priority import link_priority

SHOP = "https://shop.example"


@pytest.mark.parametrize(
    ("url", "priority"),
    [
        ("/", 4),
        ("/books/", 4),
        ("/books/index.html", 4),
        ("/books/index.php", 4),
        ("/books/?sort=price", 5),
        ("/books/7", 5),
        ("/books/7.html", 5),
        ("/books/myindex.html", 5),
        ("/page/about-us", 5),
        ("/homepage/7", 5),
        ("/book?p=4711", 5),  # what blogs call their articles
        ("/list?page=0", 5),
        ("/list?page=1", 5),
        ("/list?sort=price&page=2", 6),
        ("/list/page/9/", 6),
        ("/list/page/9/?sort=price", 6),
        ("/list/page-10.html", 7),
        ("/list?PAGE=99", 7),
        ("/list?pg=100", 8),
        ("/list?page=99999999999999999999", 5),
        ("/list?start=0", 5),
        ("/list?start=20", 6),
        ("/list?offset=90", 7),
        ("/list?skip=1000", 8),
    ],
)
def test_the_url_decides_the_priority_of_hubs_and_pagination(url: str, priority: int) -> None:
    assert link_priority(SHOP + url) == priority


def test_links_get_a_priority_by_url_unless_one_is_set() -> None:
    shop = page('<a href="/list?page=12">12</a><a href="/books/">books</a><a href="/book/1">one</a>')
    assert [request.priority for request in shop.links()] == [7, 4, 5]
    assert [request.priority for request in shop.links(priority=2)] == [2, 2, 2]
