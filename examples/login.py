"""Log in with the form of a site: hidden fields are sent as a browser sends them."""

from collections.abc import Iterator

import shoal

spider = shoal.Spider("login", "https://quotes.toscrape.com/login")


@spider.page(r"/login$")
def login(page: shoal.Page) -> shoal.Request:
    return page.form(route="quotes").fill(username="me", password="any")  # noqa: S106 (a practice site)


@spider.page(name="quotes")
def quotes(page: shoal.Page) -> Iterator[object]:
    for quote in page.css(".quote"):
        yield {"text": quote.css(".text::text").get(), "source": quote.css("a::attr(href)").getall()[-1]}
    yield page.links(".next", route="quotes")
