"""`shoal report` opened in a real browser, and `shoal sql` beside it."""

import subprocess
from pathlib import Path

from tests.e2e.command import DONE, HASTY, QUICK, shoal
from tests.servers.process import program

BROWSER_S = 90.0


def opened_in_chromium(page: Path, folder: Path) -> tuple[str, str]:
    """Return the document as the browser has it after loading, and what it says on its console."""
    flags = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    )
    ran = subprocess.run(
        [
            program("chromium-headless-shell", "chromium-headless-shell"),
            *flags,
            f"--user-data-dir={folder}",
            "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_S,
        check=True,
    )
    return ran.stdout, "\n".join(line for line in ran.stderr.splitlines() if "CONSOLE" in line)


def test_a_report_opens_in_a_browser_without_a_complaint(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--crawl", "<b>shop</b>", "--quiet", cwd=tmp_path, env=HASTY)
    ran = shoal("report", "--out", "report.html", "--json", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert (ran.json["pages"], ran.json["crawls"]) == (DONE, ["<b>shop</b>"])
    graph = shoal("graph", "--by", "page", "--out", "pages.dot", "--json", cwd=tmp_path)
    assert sum(node["pages"] for node in graph.json["nodes"]) == DONE
    assert (tmp_path / "pages.dot").read_text().startswith("digraph")

    document, console = opened_in_chromium(tmp_path / "report.html", tmp_path / "profile")

    assert console == ""  # no violation of its policy, nothing that could not be loaded
    assert "&lt;b&gt;shop&lt;/b&gt;" in document
    assert document.count("<svg") == 6
    assert document.count("<polyline") + document.count("<circle") >= 6
    broken = (tmp_path / "report.html").read_text().replace("<style>", "<style>.changed{}", 1)
    (tmp_path / "broken.html").write_text(broken)
    assert "Content Security Policy" in opened_in_chromium(tmp_path / "broken.html", tmp_path / "profile")[1]


def test_a_store_without_attempts_has_no_report(shop: str, tmp_path: Path) -> None:
    off = {**HASTY, "SHOAL_FETCH_LOG_ENABLED": "false"}
    shoal("crawl", shop, *QUICK, "--max-pages", "2", "--quiet", cwd=tmp_path, env=off)
    assert not list(tmp_path.rglob("attempts"))
    ran = shoal("report", cwd=tmp_path)
    assert ran.code == 1
    assert "the fetch log has no attempts" in ran.complaint
    assert "the fetch log has no attempts" in shoal("graph", cwd=tmp_path).complaint
    assert shoal("sql", "SELECT count(*) FROM attempts", "--csv", cwd=tmp_path).out == "count_star()\n0\n"
