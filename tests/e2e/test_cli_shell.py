"""`shoal shell`, asked through a pipe: a page, and expressions about it."""

import asyncio
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from tests.e2e.command import SHOAL, TIMEOUT, Ran, surroundings
from tests.servers.process import program
from tests.site.written import Sheet, serving_written

from shoal.cli.main import run

PAGE = """<!doctype html><title>T</title><h1>Größe</h1>
<a href="/a">a</a><a href="b">b</a><p class=x>1</p><p class=x>2\x1b[31m</p>"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    return path


def asked(typed: str, *arguments: str, cwd: Path) -> Ran:
    done = subprocess.run(
        [*SHOAL, "shell", *arguments],
        cwd=cwd,
        env=surroundings(),
        input=typed,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_expressions_about_a_file_are_answered_one_by_one(saved: Path) -> None:
    typed = (
        'css("h1::text").get()\n'
        'xpath("//p/text()")\n'
        "links()\n"
        "n = len(links())\n"
        "for i in range(n):\n"
        "    print(i)\n"
        "\n"
        "page.status + n\n"
    )
    ran = asked(typed, "page.html", "--url", "https://a.test/x/", cwd=saved.parent)

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        *("Größe", "1", "2\\x1b[31m", "https://a.test/a", "https://a.test/x/b"),
        *("0", "1", "202"),
    ]
    assert ran.complaint.startswith("https://a.test/x/: status 200, html, ")


def test_json_prints_one_value_per_line(saved: Path) -> None:
    ran = asked('css("p::text")\npage.status\n', "page.html", "--json", cwd=saved.parent)
    assert [json.loads(line) for line in ran.out.splitlines()] == [["1", "2\x1b[31m"], 200]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("1\nnowhere\n2\n", "line 2: NameError: name 'nowhere' is not defined"),
        ("1\ncss(\n)))\n2\n", "line 3: SyntaxError"),
    ],
)
def test_the_first_expression_that_fails_is_named_and_ends_the_shell(
    saved: Path, typed: str, told: str
) -> None:
    ran = asked(typed, "page.html", cwd=saved.parent)
    assert ran.code == 1
    assert ran.out == "1\n"
    assert told in ran.err.splitlines()[-1]


def test_a_page_is_fetched_as_in_a_crawl(shop: str, tmp_path: Path) -> None:
    typed = (
        'css("h1::text").get()\nfetch(page.url + "product/plain-cast-net.html")\ncss(".price::text").get()\n'
    )
    ran = asked(typed, shop, "--allow-private", cwd=tmp_path)

    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "£2.50"
    assert ran.err.count("status 200, html") == 2
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_the_prompt_lists_its_names(saved: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SHOAL, "shell", "page.html"],
        cwd=saved.parent,
        env=surroundings(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.write(ours, b'css("h1::text").get()\n\x04')
    out, _ = process.communicate(timeout=TIMEOUT)
    os.close(theirs)
    os.close(ours)
    assert process.returncode == 0
    assert "css(query)" in out
    assert "Größe\n" in out


def test_a_url_that_a_crawl_would_refuse_is_refused_with_advice(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["shell", shop]) == 1
    assert "--allow-private allows" in capsys.readouterr().err
    assert run(["shell", f"{shop}cart/", "--allow-private"]) == 1
    assert "robots.txt disallows it; --no-robots" in capsys.readouterr().err


def test_a_missing_file_that_looks_like_a_host_suggests_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["shell", "example.com"]) == 1
    assert "did you mean https://example.com ?" in capsys.readouterr().err


def test_a_spider_runs_on_the_page_and_its_handlers_can_be_called(saved: Path) -> None:
    (saved.parent / "letters.py").write_text(
        "import shoal\nspider = shoal.Spider('letters')\n"
        "@spider.page()\ndef letter(page):\n    yield {'title': page.css('h1::text').get()}\n    yield page.links()\n"
    )
    typed = "run()\nletter(page)[0]['title']\nview()\n"

    ran = asked(typed, "letters.py", "page.html", "--url", "https://a.example/", cwd=saved.parent)

    assert ran.code == 0, ran.err
    item, first, second, title, path = ran.out.splitlines()
    assert item == "{'title': 'Größe'}"
    assert (first, second, title) == ("https://a.example/a", "https://a.example/b", "Größe")
    assert Path(path).read_text() == PAGE
    Path(path).unlink()


def test_a_spider_without_start_urls_needs_a_page(saved: Path) -> None:
    (saved.parent / "letters.py").write_text(
        "import shoal\nspider = shoal.Spider('letters')\n@spider.page()\ndef letter(page):\n    pass\n"
    )
    ran = asked("", "letters.py", cwd=saved.parent)
    assert (ran.code, ran.complaint) == (
        1,
        "spider 'letters' has no start URL: name a page: shoal shell letters.py URL",
    )


async def test_a_rendered_page_has_what_scripts_made_and_pictures(tmp_path: Path) -> None:
    program("chromium-headless-shell", "chromium-headless-shell")
    sheets = {"/": Sheet("<div id=root></div><script>root.innerHTML = '<h1>made</h1>'</script>")}
    async with serving_written(sheets) as site:
        typed = 'css("h1::text").get()\npage.rendered\npage.screenshot[1:4]\npage.pdf[:4]\n'
        url = f"http://{site.authorities[0]}/"
        ran = await asyncio.to_thread(asked, typed, url, "--render", "--allow-private", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == ["made", "True", "b'PNG'", "b'%PDF'"]
