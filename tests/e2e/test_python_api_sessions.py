"""The Python example of the README where people run it: as a script, in IPython, in the kernel of a notebook."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tests.e2e.command import DONE, TIMEOUT, surroundings

README = Path(__file__).parents[2] / "README.md"
HEAD = "## From Python\n"


def example(shop: str) -> str:
    """Return the README's example, with the shop of the tests as its site."""
    code = README.read_text().partition(HEAD)[2].partition("```python\n")[2].partition("```")[0]
    code, sites = re.subn(r"https://[^\"]+", shop, code)
    code, limits = re.subn(r"max_pages=\d+", "allow_private=True, rate=0", code)
    assert (sites, limits) == (1, 1), "the example has one site and one limit"
    return code


def python(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=surroundings({"PYTHONWARNINGS": "default", "IPYTHONDIR": str(cwd / "ipython")}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_the_example_runs_as_a_script(shop: str, tmp_path: Path) -> None:
    (tmp_path / "crawl_books.py").write_text(example(shop))

    ran = python("crawl_books.py", cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert f"finished: {DONE} pages" in ran.stdout
    assert ran.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} <= {"crawl_books.py", "__pycache__"}


def test_the_example_runs_in_ipython(shop: str, tmp_path: Path) -> None:
    ran = python(
        *("-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"),
        cwd=tmp_path,
        stdin=f"%cpaste -q\n{example(shop)}\n--\nexit\n",
    )

    assert f"finished: {DONE} pages" in ran.stdout, ran.stdout + ran.stderr


def test_the_example_runs_in_a_notebook_beside_awaited_crawls(shop: str, tmp_path: Path) -> None:
    spider, _, call = example(shop).partition("result = ")
    cells = [
        spider,
        f"result = {call}",
        "again = await shoal.arun(spider, allow_private=True, rate=0)\nprint(len(again.items))",
        "urls = [item async for item in shoal.stream(spider, allow_private=True, rate=0)]\nprint(len(urls))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])

    NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    outputs = [json.dumps(cell.outputs) for cell in notebook.cells]
    assert f"finished: {DONE} pages" in outputs[1]
    displayed = [output for output in notebook.cells[1].outputs if output.output_type == "display_data"]
    assert [f"finished: {DONE} pages" in one.data["text/plain"] for one in displayed] == [True]
    counts = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream").strip()
        for cell in notebook.cells[2:]
    ]
    assert len(set(counts)) == 1
    assert int(counts[0]) > 0


SCRIPT = """
import shoal
spider = shoal.Spider("shop", start="{shop}", rate=5)

@spider.page()
def any_page(page):
    yield {{"url": page.url}}
    yield page.links()

if __name__ == "__main__":
    try:
        shoal.run(spider, store="data", allow_private=True)
    except KeyboardInterrupt:
        print("stopped by the caller")
"""


def test_ctrl_c_stops_cleanly_and_is_raised_in_the_script(shop: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT.format(shop=shop))
    items = tmp_path / "data/items/shop.jsonl"
    process = subprocess.Popen(
        [sys.executable, "shop.py"], cwd=tmp_path, env=surroundings(), stdout=subprocess.PIPE, text=True
    )
    try:
        while not items.exists() or not items.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()

    assert (process.returncode, out) == (0, "stopped by the caller\n")
    status = python("-m", "shoal", "status", "--store", "data", "--json", cwd=tmp_path)
    [crawl] = json.loads(status.stdout)["crawls"]
    assert (crawl["counts"]["leased"], crawl["counts"]["done"] > 0) == (0, True)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_that_runs_its_crawl_unguarded_is_refused_by_the_command(
    guarded: bool, shop: str, tmp_path: Path
) -> None:
    code = SCRIPT.format(shop=shop).replace("rate=5", "rate=0")
    if not guarded:
        code = code.replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "shop.py").write_text(code)

    ran = python("-m", "shoal", "crawl", "shop.py", "--allow-private", "--quiet", cwd=tmp_path)

    if guarded:
        assert ran.returncode == 0, ran.stderr
    else:
        assert ran.returncode == 1
        assert 'put that below if __name__ == "__main__":' in ran.stderr
