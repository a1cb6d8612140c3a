"""The examples of docs/api.md are run as they stand, next to a shop on this machine."""

import asyncio
import re
import sys
from pathlib import Path

from tests.e2e.command import surroundings
from tests.integration.server.running import running_server

from shoal.model.api.roles import Role
from shoal.model.settings import CrawlSettings, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


async def run(program: str, text: str, folder: Path, **variables: str) -> str:
    process = await asyncio.create_subprocess_exec(
        program,
        "-c",
        text,
        cwd=folder,
        env=surroundings(variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(100):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_every_example_with_curl_works(shop: str, tmp_path: Path) -> None:
    assert "SHOAL_" not in block("bash")  # commands warn about such variables
    first, *others = block("bash").replace("https://shop.example/", shop).splitlines()
    others = [line.replace("shop.example", shop.split("/")[2]) for line in others]
    wait = 'until api "$API/crawls/shop" | grep -q \'"finished":true\'; do sleep 0.2; done'
    ended = 'while ! api "$API/workers" | grep -q \'"owner":null\'; do sleep 0.2; done'
    script = "\n".join(["set -e", first, others[0], wait, ended, *others[1:]])
    script = script.replace("https://ci.example/hook", shop)
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True, rate=0))
    async with running_server(tmp_path, settings=settings, outputs=str(tmp_path)) as server:
        api = f"http://127.0.0.1:{server.port}/api/v1"
        await run("bash", script, tmp_path, API=api, TOKEN=server.tokens[Role.ADMIN])
    assert (tmp_path / "shop.csv").read_text().startswith("url,title\n")


async def test_the_example_in_python_works(shop: str, tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "store"), crawl=CrawlSettings(allow_private=True, rate=0))
    async with running_server(tmp_path, settings=settings, outputs=str(tmp_path)) as server:
        text = block("python").replace("https://shop.example/", shop)
        text = text.replace("http://127.0.0.1:8787", f"http://127.0.0.1:{server.port}")
        text = f"token = {server.tokens[Role.ADMIN]!r}\n{text}"
        printed = await run(sys.executable, text, tmp_path)
    assert len(printed.splitlines()) >= 15
