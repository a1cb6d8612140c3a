"""`render=` of a request: which pool it goes to, and what is refused."""

import pytest

from shoal.model.rendering import Click, Rendering, ScrollToEnd
from shoal.model.request import Request, pack, request_fingerprint, unpack, with_rendering

SCROLL = Rendering(actions=(ScrollToEnd(times=3), Click("a")), screenshot=True)


@pytest.mark.parametrize(
    ("given", "pool", "render"),
    [
        ({}, "http", None),
        ({"render": False}, "http", None),
        ({"render": True}, "browser", None),
        ({"render": SCROLL}, "browser", SCROLL),
        ({"render": True, "pool": "browser-eu"}, "browser-eu", None),
    ],
)
def test_a_request_that_is_rendered_goes_to_the_pool_of_browsers(
    given: dict[str, object], pool: str, render: Rendering | None
) -> None:
    request = Request("http://a.test/", **given)  # type: ignore[arg-type]
    assert (request.pool, request.render) == (pool, render)
    assert unpack(pack(request)) == request


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ({"render": True, "pool": "http-eu"}, ValueError, "renders nothing"),
        ({"render": Rendering(actions=(Click(" "),))}, ValueError, "needs a selector"),
        ({"render": "yes"}, TypeError, "True or a Rendering"),
    ],
)
def test_a_rendering_that_cannot_be_done_is_refused(
    given: dict[str, object], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        Request("http://a.test/", **given)  # type: ignore[arg-type]


def test_rendering_is_not_part_of_the_identity_of_a_request() -> None:
    plain, rendered = Request("http://a.test/"), Request("http://a.test/", render=SCROLL)
    assert request_fingerprint(plain) == request_fingerprint(rendered)


def test_a_crawl_that_renders_its_pages_leaves_sitemaps_and_other_pools_alone() -> None:
    def pool(**given: str) -> str:
        return with_rendering(Request("http://a.test/", **given), SCROLL).pool  # type: ignore[arg-type]

    assert (pool(), pool(pool="http-eu"), pool(route="shoal.sitemap")) == ("browser", "http-eu", "http")
    assert with_rendering(Request("http://a.test/"), SCROLL).render == SCROLL
    assert with_rendering(Request("http://a.test/"), Rendering()).render is None
