"""The first day with Shoal, and the nights after it: the wheel alone, and the manual of git on nginx."""

import csv
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.web_server import WebServer, serving
from tests.corpora.links import links_by_lxml
from tests.corpora.trees import GIT
from tests.e2e.command import NO_RETRIES, Ran, records, surroundings
from tests.needs import missing
from tests.servers.nginx import put_nginx_into_path
from tests.servers.process import free_port

ROOT = Path(__file__).parents[2]
START = "git-notes.html"
CHANGED = "gitglossary.html"
LIMITS = ("--allow-private", "--rate", "0", "--per-host", "8")
SPIDER = """\
import shoal

spider = shoal.Spider("manual", "{start}", follow=r"\\.html$", key="url")


@spider.page()
def manual(page):
    yield {{"url": page.url, "title": page.css("title::text").get(), "does": page.css("{query}").get()}}
    yield page.links()
"""
WRONG, RIGHT = "#header h1 + p::text", "#header h2 + .sectionbody p::text"


class Laptop:
    """A folder, and an environment in which nothing but the wheel is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._bin = folder / "env" / "bin"
        uv = (sys.executable, "-m", "uv", "--quiet")
        _run(*uv, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", folder, ROOT)
        [wheel] = folder.glob("*.whl")
        install = (*uv, "pip", "install", "--python", self._bin / "python")
        _run(*uv, "venv", "--python", sys.executable, folder / "env")
        try:
            _run(*install, "--require-hashes", "-r", ROOT / "requirements" / "core.txt")
        except subprocess.CalledProcessError as error:
            missing(f"the packages of requirements/core.txt cannot be installed: {error.stderr[-300:]}")
        _run(*install, "--no-deps", wheel)

    def shoal(self, *arguments: str, env: Mapping[str, str] = {}) -> Ran:
        done = _run(self._bin / "shoal", *arguments, cwd=self.folder, env=env, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def crawl(self, *arguments: str, env: Mapping[str, str] = {}) -> Ran:
        return self.shoal("crawl", "manual.py", *LIMITS, *arguments, env=env)

    def type_advice(self, text: str, command: str, out: str) -> Ran:
        """Run a command that was printed, with a name in place of FILE."""
        [advice] = set(re.findall(rf"shoal ({command} .*? --out )FILE", text))
        return self.shoal(*shlex.split(advice), out)

    def does(self, name: str = "manual.jsonl") -> dict[str, str | None]:
        """Return what the items of a file say about each page."""
        items = records(self.folder / name)
        found = {urlsplit(item["url"]).path[1:]: item["does"] for item in items}
        assert len(found) == len(items)
        return found


def _run(
    *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] = {}, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=surroundings(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=check,
    )


def reached(site: Path, depth: int) -> set[str]:
    """Return the pages that are at most `depth` links away from the start, as files and by lxml."""
    found = newest = {START}
    for _ in range(depth):
        linked = {
            urlsplit(link).path[1:]
            for name in newest
            for link in links_by_lxml((site / name).read_bytes(), f"http://a.test/{name}")
            if urlsplit(link).netloc == "a.test"
        }
        newest = {name for name in linked if name.endswith(".html") and (site / name).exists()} - found
        found = found | newest
    return found


def asked(server: WebServer, site: Path) -> list[str]:
    """Return the pages that were asked for since the last time; the manual has broken links, too."""
    return sorted(path[1:] for path in server.take_log().elements() if (site / path[1:]).exists())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the manual into a folder, as links, so that a page can be changed."""
    put_nginx_into_path(monkeypatch)
    folder = tmp_path / "site"
    folder.mkdir()
    for page in GIT.root().glob("*.html"):
        (folder / page.name).symlink_to(page.resolve())
    return folder


@pytest.mark.timeout(600)
def test_the_first_day_and_the_nights_after_it(site: Path, tmp_path: Path) -> None:
    laptop, port, core = Laptop(tmp_path), free_port(), max(os.sched_getaffinity(0))
    near, far = reached(site, 1), reached(site, 2)
    assert 3 < len(near) < len(far)
    spider = laptop.folder / "manual.py"
    spider.write_text(SPIDER.format(start=f"http://127.0.0.1:{port}/{START}", query=WRONG))
    with serving(site, core=core, port=port) as server:
        # One page first, then the pages around it. The spider is wrong.
        tried = laptop.shoal("try", "manual.py", "--allow-private")
        assert tried.code == 0, tried
        assert "git-notes(1)" in tried.out
        server.take_log()
        first = laptop.crawl("--depth", "1", "--out", "manual.jsonl")
        assert first.code == 0, first
        assert asked(server, site) == sorted(near)
        assert laptop.does() == dict.fromkeys(near)

        # The correction needs no request, and the same command says how.
        spider.write_text(spider.read_text().replace(WRONG, RIGHT))
        same = laptop.crawl("--depth", "1", "--out", "manual.jsonl")
        assert same.out.startswith("Nothing to do"), same
        fixed = laptop.type_advice(same.out, "reparse", "fixed.jsonl")
        assert fixed.code == 0, fixed
        assert f"field does: changed in {len(near)}" in fixed.out
        does = laptop.does("fixed.jsonl")
        assert does.keys() == near
        assert "object notes" in str(does[START])
        assert asked(server, site) == []

        # Deeper: what is there is not fetched again.
        deeper = laptop.crawl("--depth", "2", "--out", "manual.jsonl")
        assert deeper.code == 0, deeper
        assert "is extended" in deeper.err
        assert asked(server, site) == sorted(far - near)
        assert laptop.does().keys() == far

        # Another output: it gets what comes, and a command writes what there is.
        added = laptop.crawl("--depth", "2", "--out", "manual.jsonl", "--out", "manual.csv")
        assert added.code == 0, added
        exported = laptop.type_advice(added.out, "export", "all.csv")
        assert exported.code == 0, exported
        with (laptop.folder / "all.csv").open(newline="") as table:
            assert {urlsplit(row["url"]).path[1:] for row in csv.DictReader(table)} == far
        assert asked(server, site) == []

    # The next night the site is down: nothing is lost of what there was.
    night = ("--depth", "2", "--again", "--quiet", "--out", "manual.jsonl")
    yesterday = (laptop.folder / "manual.jsonl").read_bytes()
    down = laptop.crawl(*night, env=NO_RETRIES)
    assert down.code == 8, down
    assert (laptop.folder / "manual.jsonl").read_bytes() == yesterday

    # Then it is up, with an edited page; everything is fetched again, with the corrected spider.
    text = (site / CHANGED).read_text().replace("A Git Glossary", "Words of Git")
    (site / CHANGED).unlink()
    (site / CHANGED).write_text(text)
    with serving(site, core=core, port=port) as server:
        up = laptop.crawl(*night)
        assert up.code == 0, up
        assert asked(server, site) == sorted(far)
    does = laptop.does()
    assert does.keys() == far
    assert "Words of Git" in str(does[CHANGED])
    assert all(does[name] for name in near)
    verified = laptop.shoal("verify")
    assert verified.code == 0, verified
    assert "nothing lost, nothing doubled" in verified.out
