"""Take the pictures of docs/dashboard.md from real crawls:  python -m tests.integration.dashboard.pictures docs/images"""

import asyncio
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e.command import HASTY, PRIVATE, QUICK, shoal, started
from tests.integration.dashboard.large import Size, fill
from tests.integration.dashboard.pages import Dashboard, open_dashboard
from tests.servers.chromium import DESKTOP, PHONE
from tests.servers.redis import valkey

from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop

WIDE = (1280, 800)
DONE = "Number([...document.querySelectorAll('.tile')].find((one) => one.innerText.includes('Done')).querySelector('b').innerText)"
CULPRIT = "document.querySelector('.stage.culprit h3').innerText"
NAMES = (
    *("shop", "news", "books", "tools", "garden", "music", "maps", "boats", "lamps", "tea", "wool", "kites"),
    *("clocks", "bikes", "paper", "glass", "bread", "stone", "seeds", "honey", "cards", "ropes", "sails"),
)


@dataclass(frozen=True)
class NamedHosts(Size):
    def host(self, number: int) -> str:
        place = (number * number + number // 7) % 997 % self.hosts if number % 4 else number % 5
        return f"{NAMES[place % len(NAMES)]}{'-' + str(place // len(NAMES)) if place >= len(NAMES) else ''}.example"


async def running(folder: Path, into: Path) -> None:
    """Take pictures of a crawl that runs."""
    store = "harbour"
    with open_shop(Shop(), latency=0.04) as address:
        options = (
            "--store",
            store,
            "--allow-private",
            "--rate",
            "12",
            "--per-host",
            "6",
            "--crawl",
            "harbour-shop",
        )
        with started("crawl", address, *options, "--quiet", cwd=folder):
            async with open_dashboard(folder, store, WIDE) as shown:
                await asyncio.sleep(16)
                await shoot(shown, "", into / "overview.png")
                await shoot(shown, "", into / "phone.png", PHONE, dark=True)
                await shoot(shown, "", into / "dark.png", dark=True)


async def story(folder: Path, into: Path) -> None:
    """Take a picture of one URL that was tried twice."""
    store = ("--store", "harbour", "--crawl", "harbour-shop", "--quiet")
    with open_shop(Shop(), latency=0.02) as address:
        await asyncio.to_thread(shoal, "crawl", address, *QUICK, *store, cwd=folder, env=HASTY)
    async with open_dashboard(folder, "harbour", WIDE) as shown:
        await shown.show("requests?failed=1")
        await shown.page.until("document.querySelector('td .url')")
        await shown.page.run("document.querySelector('td .url').click()")
        await shown.page.until("document.querySelector('.timeline')")
        await shown.page.view((1280, 660))  # above the path of the output, which names this machine's folder
        await asyncio.sleep(0.5)
        await shown.page.picture(into / "story.png")


async def stalled(folder: Path, into: Path) -> None:
    """Take a picture of a fleet whose parse workers are gone."""
    async with valkey(folder / "valkey") as server:
        place = {"SHOAL_ARCHIVE_LOCATION": str(folder / "archive")}
        env = {**HASTY, **PRIVATE, **place, "SHOAL_STORE": server.dsn}
        with open_shop(Shop(), latency=0.02) as address:
            options = (*QUICK, "--rate", "30", "--crawl", "shop", "--out", "items.jsonl")
            await asyncio.to_thread(shoal, "submit", address, *options, cwd=folder, env=env)
            async with open_dashboard(folder, server.dsn, WIDE) as shown:
                with started("worker", "--roles", "fetch", cwd=folder, env=env):
                    with started("worker", "--roles", "parse,sink", cwd=folder, env=env):
                        await shown.page.until(f"{DONE} > 60")
                    await shown.page.until(f"{CULPRIT} === 'Parse' || {CULPRIT} === 'Sink'")
                    await asyncio.sleep(10)
                    await shoot(shown, "", into / "stalled.png")


async def many_hosts(folder: Path, into: Path) -> None:
    store = "many-hosts"
    await fill(store, NamedHosts(urls=30_000, hosts=90, ended=3_000, logged=30_000), folder / "unused")
    async with open_dashboard(folder, store, WIDE) as shown:
        await shoot(shown, "hosts", into / "hosts.png")
        await shoot(shown, "graph", into / "graph.png", DESKTOP)


async def shoot(
    shown: Dashboard, path: str, file: Path, size: tuple[int, int] = WIDE, *, dark: bool = False
) -> None:
    await shown.page.view(size, dark=dark)
    await shown.show(path)
    await asyncio.sleep(3)
    await shown.page.picture(file)


def main(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for take in (running, story, stalled, many_hosts):
        with TemporaryDirectory() as folder:
            with chdir(folder):  # so that pictures show short names
                asyncio.run(take(Path(folder), into))
    for picture in sorted(into.glob("*.png")):  # the program pngquant makes them a third of the size
        command = ["pngquant", "--force", "--ext", ".png", "--speed", "1", "128", str(picture)]
        if shutil.which(command[0]):
            subprocess.run(command, check=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
