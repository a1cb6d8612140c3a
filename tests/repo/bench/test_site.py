"""The benchmark's site is what the benchmark says it is."""

from urllib.parse import urldefrag, urljoin

from bench.site import FIELDS, LINKS, page, path_of
from parsel import Selector


def test_every_page_can_be_reached_from_the_first() -> None:
    pages = 500
    by_url = {f"http://shop{path_of(number)}": number for number in range(pages)}
    seen, queue = {"http://shop/"}, ["http://shop/"]
    while queue:
        url = queue.pop()
        for href in Selector(page(by_url[url], pages)).css("a::attr(href)").getall():
            link = urldefrag(urljoin(url, href))[0]
            if link not in seen:
                seen.add(link)
                queue.append(link)

    assert seen == set(by_url)


def test_a_page_has_the_size_the_links_and_the_fields_of_the_job() -> None:
    text = page(1234, 20_000)
    found = Selector(text)

    assert 11_500 < len(text.encode()) < 13_000
    assert len(found.css("a")) == LINKS
    assert all(found.css(f"{selector}::text").get() for selector in FIELDS.values())


def test_it_is_the_same_every_time() -> None:
    assert page(7, 100) == page(7, 100)
    assert page(7, 100) != page(8, 100)
