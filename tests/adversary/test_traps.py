"""Sites that serve one page under any number of addresses, on default settings, in a folder and by a fleet."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.e2e.command import QUICK, shoal
from tests.servers.redis import valkey
from tests.site.server import serving
from tests.site.sessions import PRODUCTS

PAGES = 1_500  # within which a trap is closed: 500 identical pages, one in 8 sampled
WHERE = sized(["query", "path"], full=["query", "path", "matrix", "letters"])


@pytest.fixture
async def dsn(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "store")
    else:
        async with valkey(tmp_path) as server:
            yield server.dsn


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("dsn", ["folder", "fleet"], indirect=True)
async def test_session_ids_are_cut_off_and_everything_else_is_found(
    dsn: str, where: str, tmp_path: Path
) -> None:
    async with serving("tests.site.sessions:build", where, hosts=1) as site:
        start = f"http://{site.authorities[0]}/"
        crawl = ("crawl", start, "--store", dsn, *QUICK, "--json", "--quiet")
        ran = shoal(*crawl, cwd=tmp_path)
        fetched = Counter(hit.path for hit in await site.hits())

    assert ran.code == 0, ran.err
    assert sum("home" in path for path in fetched) < PAGES
    assert {path for path in fetched if "product" in path} == {f"/product/{n + 1}" for n in range(PRODUCTS)}
    [closed] = ran.json["identical_pages"]
    assert closed["more_than"] == 500
    [status] = shoal("status", "--store", dsn, "--json", cwd=tmp_path).json["crawls"]
    assert status["identical_pages"] == [closed]
    assert status["filtered_by_rule"]["trap"] == status["counts"]["filtered"] > 0
    assert closed["pattern"] in shoal("status", "--store", dsn, cwd=tmp_path).out
