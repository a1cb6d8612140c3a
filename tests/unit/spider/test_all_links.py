"""The links that a page keeps for the next generation: all that are in scope, new or not, and no other."""

import pytest
from tests.unit.spider.pages import task

from shoal.engine.scope_state import ScopeState
from shoal.model.errors import Rejected
from shoal.model.generations.all_links import AllLinks, pack_all, unpack_all
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.spider.page import Page
from shoal.spider.run import run
from shoal.spider.spider import SITEMAP, Handler, Spider

HOST = "books.example"
OWN = f"https://{HOST}/catalogue/index.html"
BODY = (
    '<a href="/a">a</a><a href="/b">b</a><a href="https://other.example/">o</a><a href="index.html">own</a>'
)
SCOPE = Scope(hosts=frozenset({HOST}), all_links=True)


class NoChildren:
    def configure(self, scope: Scope) -> None: ...
    async def watch(self) -> None: ...
    def submit(self, task: ParseTask, on_answer: object) -> None: ...


def spider_with(handler: Handler) -> Spider:
    spider = Spider("s")
    spider.page()(handler)
    return spider


def kept(result: ParseResult) -> AllLinks:
    assert result.fault is None, result.fault
    return unpack_all(result.all_links, limit=1 << 20)


def test_known_links_are_kept_and_links_out_of_scope_are_not() -> None:
    spider = spider_with(lambda page: page.links())
    for sent in (2, 0):  # the second time, all links are known
        result = run(spider, task(BODY), scope=SCOPE)
        assert len(result.requests) == sent
        assert kept(result) == AllLinks([f"https://{HOST}/a", f"https://{HOST}/b"], [])


def test_links_beyond_the_depth_of_the_crawl_are_not_kept() -> None:
    spider, scope = spider_with(lambda page: page.links()), Scope(depth=1, all_links=True)
    assert len(kept(run(spider, task(BODY), scope=scope))) == 3
    deep = task(BODY, request=Request(url=OWN, depth=1))
    assert len(kept(run(spider, deep, scope=scope))) == 0


def test_a_sitemap_that_was_requested_is_no_link_that_may_be_followed() -> None:
    """A sitemap need not match `follow`; a link to the same URL has to."""
    scope = Scope(follow="/a$", all_links=True)

    def handler(page: Page) -> object:
        return [page.follow("/b", route=SITEMAP)] if page.data else page.links()

    spider = spider_with(handler)
    asked = run(spider, task(BODY, request=Request(url=OWN, data={"sitemap": 1})), scope=scope)
    assert [unpack(one).url for one in asked.requests] == [f"https://{HOST}/b"]
    assert kept(run(spider, task(BODY), scope=scope)).urls == [f"https://{HOST}/a"]


def test_a_page_with_too_many_links_keeps_as_many_as_it_may_have() -> None:
    scope = Scope(limits=LinkLimits(per_page=2), all_links=True)
    body = "".join(f'<a href="/{n}">{n}</a>' for n in range(5))
    assert kept(run(spider_with(lambda page: page.links()), task(body), scope=scope)).urls == [
        f"https://{HOST}/0",
        f"https://{HOST}/1",
    ]


def test_links_that_need_more_than_their_url_are_carried_with_it() -> None:
    spider = spider_with(lambda page: page.links(route="book", data={"n": 1}))
    found = kept(run(spider, task('<a href="/a">a</a>'), scope=SCOPE))
    assert found.urls == []
    assert len(found.packed) == 1
    state, page = ScopeState(SCOPE, NoChildren()), Request(url=OWN, depth=2)
    [link], repeats = state.carried_links(pack_all(found), found_on=5, page=page)
    request = unpack(link.packed)
    assert (request.route, request.data, request.depth, request.found_on) == ("book", {"n": 1}, 3, 5)
    assert repeats == 0


def test_carried_links_are_the_same_as_those_that_a_child_would_send() -> None:
    body = '<a href="/a/">hub</a><a href="/list?page=12">12</a>'
    result = run(spider_with(lambda page: page.links()), task(body, fingerprint=5), scope=SCOPE)
    state = ScopeState(SCOPE, NoChildren(), b"key")
    sent = state.links_of(result.requests, found_on=5, page=Request(url=OWN))
    carried, repeats = state.carried_links(result.all_links, found_on=5, page=Request(url=OWN))
    assert carried == sent
    assert repeats == 0
    assert state.carried_links(result.all_links, found_on=6, page=Request(url=OWN)) == ((), 2)


@pytest.mark.parametrize("url", ["", "books.example", "https://[", "http://books.example:99999/"])
def test_a_stored_link_that_is_not_a_url_rejects_the_record(url: str) -> None:
    state = ScopeState(SCOPE, NoChildren())
    with pytest.raises(Rejected):
        state.carried_links(pack_all(AllLinks([url])), found_on=5, page=Request(url=OWN))


@pytest.mark.parametrize("url", ["mailto:a@b.example", "https://other.example/", "file:///etc/passwd"])
def test_a_stored_link_out_of_scope_is_left_out(url: str) -> None:
    state = ScopeState(SCOPE, NoChildren())
    assert state.carried_links(pack_all(AllLinks([url])), found_on=5, page=Request(url=OWN)) == ((), 1)
