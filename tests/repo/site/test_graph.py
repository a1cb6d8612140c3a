"""The oracle of the acceptance tests, checked by a second, naive crawler that shares no code with Shoal."""

from collections import deque
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from parsel import Selector
from tests.site.graph import Busy, Graph, Shape
from tests.site.graph_site import GraphSite
from tests.site.server import Answer

SHAPES = {
    "plain": Shape(),
    "everything": Shape(
        seed=7,
        pages=600,
        hosts=9,
        chain=40,
        redirects=50,
        gone=20,
        disallowed=20,
        unfollowed=12,
        spellings=True,
        queries=True,
    ),
    "one page": Shape(pages=1, hosts=1, links=0),
}


def served(shape: Shape) -> tuple[Graph, GraphSite]:
    graph = Graph(shape, [f"h{host}.test" for host in range(shape.hosts)])
    return graph, GraphSite(graph)


def ask(graph: Graph, site: GraphSite, url: str) -> Answer:
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return site.answer(graph.authorities.index(parts.netloc), path, 0.0)


def walk(graph: Graph, site: GraphSite) -> dict[str, Answer]:
    """Ask for everything that can be reached politely, and return the answers."""
    answers: dict[str, Answer] = {}
    queue = deque([graph.start])
    while queue:
        url = queue.popleft()
        if url in answers or urlsplit(url).path.startswith("/private/"):
            continue
        answer = answers[url] = ask(graph, site, url)
        if location := dict(answer.headers).get("Location"):
            queue.append(location)
        if answer.status == 200:
            queue.extend(followable(url, answer))
    return answers


def followable(url: str, answer: Answer) -> list[str]:
    page = Selector(answer.body.decode())
    if "X-Robots-Tag" in dict(answer.headers) or page.css("meta[content*=nofollow]"):
        return []
    hrefs = page.css("a:not([rel~=nofollow])::attr(href)").getall()
    return [urldefrag(urljoin(url, href.strip()))[0].replace("/./up/..", "") for href in hrefs]


@pytest.mark.parametrize("name", SHAPES)
def test_a_naive_walk_finds_exactly_what_the_graph_promises(name: str) -> None:
    graph, site = served(SHAPES[name])
    expected = graph.expected()

    answers = walk(graph, site)

    assert set(answers) == expected.fetched
    assert {url for url, answer in answers.items() if answer.status == 200} == expected.pages
    assert {url for url, answer in answers.items() if answer.status == 404} == expected.gone


def test_the_oddities_asked_for_are_really_there() -> None:
    expected = served(SHAPES["everything"])[0].expected()

    assert len(expected.pages) == 600
    assert len(expected.redirects) == 50
    assert len(expected.gone) == 20
    assert len(expected.disallowed) == 20
    assert len(expected.unfollowed) == 24  # half behind marked links, half behind pages that forbid it


def test_the_same_shape_always_gives_the_same_web_and_another_seed_another_one() -> None:
    def bodies(seed: int) -> list[bytes]:
        graph, site = served(Shape(seed=seed))
        return [ask(graph, site, url).body for url in sorted(graph.expected().pages)]

    assert bodies(3) == bodies(3)
    assert bodies(3) != bodies(4)


def test_every_item_differs_and_stands_on_its_page() -> None:
    graph, site = served(SHAPES["everything"])
    items = graph.expected().items

    assert len({item["offer"] for item in items}) == len(items)
    for item in items[:50]:
        page = Selector(ask(graph, site, item["url"]).body.decode())
        [article] = page.xpath(f"//article[@id='{item['offer']}']")
        assert article.css("h2::text").get() == item["title"]
        assert article.css(".price::text").get() == item["price"]


def test_pages_are_padded_to_the_size_asked_for() -> None:
    graph, site = served(Shape(body_bytes=20_000))

    assert 19_000 < len(ask(graph, site, graph.start).body) < 21_000


def test_a_busy_host_asks_for_silence_until_it_has_had_it_and_as_often_as_asked() -> None:
    _, site = served(Shape(busy={0: Busy(after=2, retry_after_s=5, times=2)}))

    answers = [site.answer(0, "/", now) for now in (0, 1, 2, 3, 6.9, 7.1, 8, 9, 14.1, 15, 16, 17)]

    assert [answer.status for answer in answers] == [200] * 2 + [429] * 3 + [200] * 2 + [429] + [200] * 4
    assert ("Retry-After", "5") in answers[2].headers


def test_robots_txt_names_the_crawl_delay_of_its_own_host_only() -> None:
    _, site = served(Shape(crawl_delay_s={1: 2.5}))

    assert b"Crawl-delay: 2.5" in site.answer(1, "/robots.txt", 0).body
    assert b"Crawl-delay" not in site.answer(0, "/robots.txt", 0).body
