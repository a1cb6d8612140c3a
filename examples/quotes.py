"""A JSON API without markup: each page says whether there is another one."""

from collections.abc import Iterator

import shoal

spider = shoal.Spider("quotes", "https://quotes.toscrape.com/api/quotes?page=1")


@spider.page()
def quotes(page: shoal.Page) -> Iterator[object]:
    answer = page.json()
    for quote in answer["quotes"]:
        yield {"author": quote["author"]["name"], "text": quote["text"], "tags": quote["tags"]}
    if answer["has_next"]:
        yield page.follow(f"?page={answer['page'] + 1}")
