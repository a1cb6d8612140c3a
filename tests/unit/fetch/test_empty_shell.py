import time

import pytest
from tests.unit.fetch.shell_pages import PAGES, SHELLS

from shoal.fetch.empty_shell import MAX_BODY_BYTES, find_empty_shell, shell_in
from shoal.model.page import Rendered, Response

HTML = (("content-type", "text/html; charset=utf-8"),)
SHELL = SHELLS["React, Vite"].encode()


def response(body: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = HTML) -> Response:
    return Response("https://shop.example/", status, headers, body, body, 0.0, 0.1)


@pytest.mark.parametrize("name", SHELLS)
def test_the_stock_template_of_a_framework_is_an_empty_shell(name: str) -> None:
    assert shell_in(SHELLS[name].encode()) is not None


@pytest.mark.parametrize("name", PAGES)
def test_a_short_page_with_content_is_no_shell(name: str) -> None:
    assert shell_in(PAGES[name].encode()) is None


def test_the_evidence_names_the_mount_point_or_what_else_it_was() -> None:
    assert str(shell_in(SHELL)) == (
        "an empty page that JavaScript fills: 0 characters of text, and the mount point id=root"
    )
    asks = shell_in(b"<body><noscript>Please turn JavaScript on</noscript><script src=a.js></script></body>")
    assert asks is not None
    assert "asks for JavaScript" in asks.evidence
    empty = shell_in(SHELLS["Flutter"].encode())
    assert empty is not None
    assert "nothing but scripts" in empty.evidence


def test_upper_case_end_tags_and_missing_ones_are_read() -> None:
    assert shell_in(b'<body><div id="root"></div><script src=a></SCRIPT></body>') is not None
    assert shell_in(b'<body><div id="root"></div><script src=a>') is not None
    assert (
        shell_in(b'<body><div id="root"></div><script>1</script><!-- never closed <p>' + b"text " * 99)
        is not None
    )


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (404, HTML),
        (206, HTML),
        (200, (("content-type", "application/json"),)),
        (200, (("content-type", "image/svg+xml"),)),
    ],
)
def test_only_successful_html_is_looked_at(status: int, headers: tuple[tuple[str, str], ...]) -> None:
    assert find_empty_shell(response(SHELL, status, headers)) is None
    assert find_empty_shell(response(SHELL)) is not None
    assert find_empty_shell(response(SHELL, headers=())) is not None


def test_a_rendered_page_is_empty_only_if_its_scripts_have_added_nothing() -> None:
    def rendered(dom: bytes) -> Response:
        seen = Rendered(url="https://shop.example/")
        return Response("https://shop.example/", 200, HTML, dom, SHELL, 0.0, 0.1, rendered=seen)

    assert find_empty_shell(rendered(SHELL)) is not None
    assert find_empty_shell(rendered(SHELL.replace(b'"root">', b'"root"><h1>Fish</h1>'))) is None
    assert find_empty_shell(rendered(SHELL.replace(b'"root">', b'"root"><canvas></canvas>'))) is None


def test_a_page_built_to_take_long_takes_time_in_proportion_to_its_length() -> None:
    def seconds(body: bytes) -> float:
        began = time.process_time()
        shell_in(body)
        return time.process_time() - began

    for part in (
        b"<script",
        b"<<",
        b"<!--",
        b"<b",
        b"</script",
        b"&a",
        b"<x-y>",
        b"<script></SCRIPT>",
        b"<svg></SVG>",
    ):
        short = min(seconds(b"<script></script>" + part * (2**14 // len(part))) for _ in range(3))
        long = min(seconds(b"<script></script>" + part * (2**18 // len(part))) for _ in range(3))
        # 16 times the length; a quadratic rule would take 256 times as long
        assert long < max(100 * short, 0.2), part
    assert shell_in(SHELL + b" " * MAX_BODY_BYTES) is None
