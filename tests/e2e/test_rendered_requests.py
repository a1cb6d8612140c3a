"""What a rendered page requests besides itself keeps the pace of every host, in a folder and in a fleet."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.e2e.command import HASTY, records, shoal
from tests.servers.process import program
from tests.servers.redis import valkey
from tests.site.access_log import violations
from tests.site.written import Sheet, serving_written

RATE, BURST, PAGE_S = 5, 10, 3.0
TRIES = int(os.environ.get("SHOAL_FLOOD", "600"))  # 3000 takes a busy machine some seconds
LATE_S = 1.0  # a busy machine: between the turn of a request and its arrival, the browser has to be told
FLOOD = """<title>flood</title><link rel=icon href="data:,"><h1>shown</h1><script>
const to = (way, n) => '%(victim)s/' + way + '?' + n;
const quiet = {mode: 'no-cors'};
fetch(to('secret', 0), quiet).catch(() => 0);
for (let n = 0; n < %(third)d; n++) fetch(to('fetch', n), quiet).catch(() => 0);
for (let n = 0; n < %(third)d; n++) { const one = document.createElement('script'); one.src = to('script', n);
  document.head.append(one); }
for (let n = 0; n < 20; n++) navigator.sendBeacon(to('beacon', n), 'x');
for (let n = 0; n < 50; n++) try { new WebSocket('%(victim)s/socket?'.replace('http', 'ws') + n) } catch (e) { }
new Worker(URL.createObjectURL(new Blob([`for (let n = 0; n < %(third)d; n++)
  fetch('%(victim)s/worker?' + n, {mode: 'no-cors'}).catch(() => 0)`])));
</script>"""


@pytest.mark.slow("a browser, and a page that never ends")
@pytest.mark.parametrize("kind", ["folder", "fleet"])
async def test_a_page_that_tries_thousands_of_requests_at_another_host_keeps_the_pace_of_that_host(
    kind: str, tmp_path: Path
) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    async with AsyncExitStack() as stack:
        robots = Sheet("User-agent: *\nDisallow: /secret\n")
        victim = await stack.enter_async_context(serving_written({"/robots.txt": robots}))
        sheets = {"/": Sheet(FLOOD % {"victim": f"http://{victim.authorities[0]}", "third": TRIES // 3})}
        site = await stack.enter_async_context(serving_written(sheets))
        store = "data"
        if kind == "fleet":
            store = (await stack.enter_async_context(valkey(tmp_path / "valkey"))).dsn
        env = {**HASTY, "SHOAL_BROWSER_PAGE_S": str(PAGE_S), "SHOAL_BROWSER_BURST": str(BURST)}
        arguments = (
            "crawl",
            f"http://{site.authorities[0]}/",
            "--render",
            "--item",
            "title=h1",
            "--store",
            store,
        )
        pace = ("--allow-private", "--rate", str(RATE))
        ran = await asyncio.to_thread(
            shoal, *arguments, *pace, "--out", "o.jsonl", "--json", cwd=tmp_path, env=env
        )
        assert (ran.code, ran.json["counts"]["dead"]) == (0, 0), ran.err
        assert [record["title"] for record in records(tmp_path / "o.jsonl")] == ["shown"]
        hits = await victim.hits()
        logged = shoal(
            "sql",
            "SELECT requests FROM attempts WHERE sent",
            "--store",
            store,
            "--json",
            cwd=tmp_path,
            env=env,
        )

    asked = [hit for hit in hits if hit.path != "/robots.txt"]
    assert not violations([hit.arrived for hit in hits], rate=RATE, burst=BURST + 1, slack_s=LATE_S)
    assert 0 < len(asked) < TRIES / 5
    assert min(hits).path == "/robots.txt", "it is asked first"
    assert not [hit for hit in asked if hit.path.startswith("/secret")]
    assert logged.code == 0, logged.err
    assert logged.json["rows"][0][0] >= len(asked), logged.out
