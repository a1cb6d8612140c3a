"""A spider with arguments: it logs in, asks an API, waits for a job and reads a page that is gone."""

from collections.abc import Iterator
from typing import Any

import shoal


def account(user: str, polls: int = 3) -> shoal.Spider:
    spider = shoal.Spider(
        "account", found_on=True, headers={"X-Api-Key": f"key {shoal.secret('SHOP_API_KEY')}"}
    )

    @spider.page(r"/login$")
    def login(page: shoal.Page) -> shoal.Request:
        password = shoal.secret("SHOP_PASSWORD")
        return page.form("#login", route="home").fill(user=user, password=password)

    @spider.page(name="home")
    def home(page: shoal.Page) -> Iterator[object]:
        yield {"kind": "home", "title": page.css("h1::text").get(), "found_on": page.found_on}
        yield page.follow("/api", json={"q": [1]}, auth=("me", "pw-of-api"), route="api")
        yield page.follow("/job", data={"polls": polls})
        yield page.links()

    @spider.page(name="api")
    def api(page: shoal.Page) -> Iterator[object]:
        for number in page.json()["numbers"]:
            yield {"kind": "number", "number": number}

    @spider.page(r"/job$")
    def job(page: shoal.Page) -> Iterator[object]:
        if page.text == "waiting" and page.data["polls"]:
            yield shoal.Request(page.url, again=True, data={"polls": page.data["polls"] - 1})
        else:
            yield {"kind": "job", "text": page.text, "left": page.data["polls"]}

    @spider.page(r"/missing$", statuses=[404])
    def missing(page: shoal.Page) -> dict[str, Any]:
        return {"kind": "missing", "status": page.status, "found_on": page.found_on, "text": page.text}

    @spider.item
    def few(item: dict[str, Any]) -> dict[str, Any]:
        if item.get("number", 0) > 1:
            raise shoal.Drop("too many")
        return item

    return spider
