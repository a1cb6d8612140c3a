"""Every page of the dashboard in a real browser: nothing fails, nothing is said on the console."""

import json
from pathlib import Path

from tests.e2e.command import HASTY, QUICK, shoal
from tests.integration.dashboard.pages import PAGES, READY, Relay, open_dashboard
from tests.servers.chromium import PHONE

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop


def crawled_shop(folder: Path) -> None:
    with open_shop(Shop(categories=1), latency=0.001) as address:
        ran = shoal(
            "crawl", address, *QUICK, "--store", "shoal", "--crawl", "shop", "--quiet", cwd=folder, env=HASTY
        )
    assert ran.code == 0, ran.err


async def test_every_page_of_a_folder_store_opens_without_a_complaint(tmp_path: Path) -> None:
    crawled_shop(tmp_path)
    async with open_dashboard(tmp_path, str(tmp_path / "shoal")) as shown:
        texts = {path: await shown.show(path) for path in PAGES}
        assert "Every crawl is finished." in texts[""]
        assert "shop" in texts["crawls"]
        assert "No dead letters" in texts["dead-letters"]
        assert "http://127.0.0.1" in texts["requests"]
        assert "fetched_at" in texts["items"]
        crawl = await shown.show("crawls/shop")
        assert "Links not followed, by rule" in crawl

        await shown.show("requests")
        # The latest ones may be those that robots.txt disallows: they have no page.
        await shown.page.run("document.querySelector('tr:has(.status.good) .url').click()")
        await shown.page.until("document.querySelector('.timeline')")
        await shown.page.click("Look at the page")
        await shown.page.until("document.querySelector('iframe.archived')")
        assert await shown.page.run("document.querySelector('iframe').getAttribute('sandbox')") == ""
        await shown.page.click("Source")
        assert "<!doctype html>" in await shown.page.text()
        shown.check()

        await shown.show("crawls/shop")
        report = await shown.page.run("[...document.links].find((one) => one.innerText === 'Report').href")
        await shown.page.go(report)
        await shown.page.until("document.querySelectorAll('svg.wide').length === 3")
        rounded = "getComputedStyle(document.querySelector('section')).borderRadius"
        assert await shown.page.run(rounded) == "10px"  # the policy lets its style sheet in
        shown.check()


async def test_every_page_of_an_empty_store_says_what_to_do_next(tmp_path: Path) -> None:
    async with open_dashboard(tmp_path, str(tmp_path / "none"), PHONE) as shown:
        texts = {path: await shown.show(path) for path in PAGES}
        for path in ("", "crawls", "items", "graph"):
            assert "shoal crawl" in texts[path]
        for path in PAGES:
            await shown.show(path)
            assert await shown.page.run("document.documentElement.scrollWidth") <= PHONE[0], path
        shown.check()


async def test_the_dashboard_says_that_the_connection_is_lost_and_recovers(tmp_path: Path) -> None:
    crawled_shop(tmp_path)
    async with (
        open_dashboard(tmp_path, str(tmp_path / "shoal")) as shown,
        Relay.open(shown.server.port) as relay,
    ):
        await shown.page.go(f"http://127.0.0.1:{relay.port}/ui")
        await shown.page.until(READY)
        relay.cut()
        await shown.page.until("document.querySelector('.connection.lost')")
        assert "Connection lost. The figures below are those of" in await shown.page.text()
        relay.restore()
        await shown.page.until("document.querySelector('.connection.live')")


async def test_a_wrong_token_is_refused_with_a_form_to_sign_in(tmp_path: Path) -> None:
    async with open_dashboard(tmp_path, str(tmp_path / "none")) as shown:
        await shown.page.run("fetch('/api/v1/session').then((answer) => answer.json())")
        await shown.page.session.call("Network.clearBrowserCookies")
        await shown.page.go(f"{shown.url}/ui/hosts?x=1#token=shoal_wrong")
        await shown.page.until("document.querySelector('.signin [role=alert]')")
        assert "the token is unknown" in await shown.page.text()
        token = json.dumps(next(iter(shown.server.tokens.values())))
        await shown.page.run(
            f"document.querySelector('.signin input').value = {token};"
            " document.querySelector('.signin button').click()"
        )
        await shown.page.until("document.querySelector('.connection.live')")
        assert "token" not in await shown.page.run("location.href")
