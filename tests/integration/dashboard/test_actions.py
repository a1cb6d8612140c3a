"""What can be changed from the dashboard: crawls, hosts, dead letters; and what a small role cannot."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.dashboard.large import CRAWL, Size, fill
from tests.integration.dashboard.pages import READY, Dashboard, open_dashboard
from tests.servers.redis import valkey

from shoal.model.api.roles import Role
from shoal.stores.open import open_store

SIZE = Size(urls=400, hosts=8, ended=200, logged=100)


@pytest.fixture(params=["folder", "redis"])
async def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "store")
        return
    async with valkey(tmp_path / "valkey") as server:
        yield server.dsn


async def confirmed(shown: Dashboard, action: str) -> None:
    """Press the button of a dialog."""
    await shown.page.until("document.querySelector('dialog[open] button[type=submit]')")
    await shown.page.run("document.querySelector('dialog[open]:last-of-type button[type=submit]').click()")


async def test_crawls_hosts_and_dead_letters_are_changed(dsn: str, tmp_path: Path) -> None:
    await fill(dsn, SIZE, tmp_path / "archive")
    async with open_dashboard(tmp_path, dsn) as shown:
        await shown.show(f"crawls/{CRAWL}")
        await shown.page.click("Pause")
        await confirmed(shown, "Pause")
        await shown.page.until("document.body.innerText.includes('Resume')")
        async with open_store(dsn) as store:
            assert await store.frontier.paused(CRAWL)
        await shown.page.click("Resume")
        await shown.page.until(
            "[...document.querySelectorAll('button')].some((one) => one.innerText === 'Pause')"
        )
        async with open_store(dsn) as store:
            assert not await store.frontier.paused(CRAWL)

        await shown.show("hosts/host-4.example")
        await shown.page.click("Set pace")
        await shown.page.until("document.querySelector('dialog input')")
        await shown.page.run("document.querySelector('dialog input').value = '0.25'")
        await confirmed(shown, "Set")
        await shown.page.until("document.body.innerText.includes('The pace of host-4.example is set')")
        await shown.page.click("Pause")
        await confirmed(shown, "Pause")
        await shown.page.until("document.body.innerText.includes('host-4.example is paused')")
        async with open_store(dsn) as store:
            host = await store.host("host-4.example")
            assert host is not None
            assert host.paused
            assert host.interval >= 4.0  # the slow-down of the host comes on top

        await shown.show("dead-letters")
        await shown.page.until("document.querySelectorAll('tbody tr').length === 10")
        await shown.page.run("document.querySelector('td .url').click()")
        await shown.page.click("Replay")
        await shown.page.until("document.querySelectorAll('tbody tr').length === 9")
        await shown.page.run("document.querySelector('td .url').click()")
        await shown.page.until("document.querySelector('dialog .danger')")
        await shown.page.run("document.querySelector('dialog .danger').click()")
        await shown.page.until("document.querySelectorAll('dialog[open]').length === 2")
        await confirmed(shown, "Purge")
        await shown.page.until("document.querySelectorAll('tbody tr').length === 8")
        await shown.page.click("Replay all that fit")
        await confirmed(shown, "Replay")
        await shown.page.until("document.body.innerText.includes('No dead letters')")
        async with open_store(dsn) as store:
            assert (await store.frontier.counts(CRAWL)).dead == 1  # the purged one stays counted
        shown.check()


async def test_a_token_that_only_reads_is_offered_no_changes(tmp_path: Path) -> None:
    await fill(str(tmp_path / "store"), SIZE, tmp_path / "archive")
    async with open_dashboard(tmp_path, str(tmp_path / "store")) as shown:
        await shown.page.session.call("Network.clearBrowserCookies")
        await shown.page.go("about:blank")
        await shown.page.go(f"{shown.url}/#token={shown.server.tokens[Role.READ]}")
        await shown.page.until(READY)
        for path in (f"crawls/{CRAWL}", "hosts/host-4.example", "dead-letters"):
            text = await shown.show(path)
            assert not [word for word in ("Pause", "Set pace", "Replay", "Purge") if word in text], path
        refused = await shown.page.run(
            f"fetch('/api/v1/crawls/{CRAWL}/pause', {{method: 'POST'}}).then((answer) => answer.status)"
        )
        assert refused == 403


async def test_pages_can_be_used_with_a_keyboard(tmp_path: Path) -> None:
    await fill(str(tmp_path / "store"), SIZE, tmp_path / "archive")
    async with open_dashboard(tmp_path, str(tmp_path / "store")) as shown:
        await shown.show("hosts")
        await shown.page.until("document.querySelector('tbody a')")
        reached = []
        for _ in range(40):
            for kind in ("keyDown", "keyUp"):
                await shown.page.session.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)  # fmt: skip
            reached.append(
                await shown.page.run(
                    "(() => { const one = document.activeElement; const style = getComputedStyle(one);"
                    " return [one.innerText || one.getAttribute('aria-label') || one.placeholder || one.tagName,"
                    " style.outlineStyle !== 'none' || one.matches('.skip, body')] })()"
                )
            )
        names = [name for name, _ in reached]
        assert names[0] == "Skip to the page"
        assert {"Overview", "Alerts", "Sign out", "shop.example", "most failures"} <= set(names)
        assert any(name.endswith(".example") and name.startswith("host-") for name in names)
        assert [name for name, visible in reached if not visible] == []
