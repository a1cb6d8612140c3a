"""Blocks are recognised by weighted evidence, never by one word."""

import pytest
from tests.unit.fetch.block_pages import BLOCKS, LINKS, OTHER_FAILURES, PAGES, VENDOR_HEADERS, response

from shoal.fetch.challenge import find_block
from shoal.model.page import Response


@pytest.mark.parametrize(("vendor", "page"), BLOCKS.values(), ids=BLOCKS)
def test_a_block_names_its_vendor_and_its_evidence(vendor: str, page: Response) -> None:
    block = find_block(page)
    assert block is not None
    assert block.vendor == vendor
    assert len(block.evidence) >= (1 if page.status == 302 else 2)
    assert vendor in str(block)


@pytest.mark.parametrize("page", [*PAGES.values(), *OTHER_FAILURES.values()], ids=[*PAGES, *OTHER_FAILURES])
def test_a_page_that_mentions_or_embeds_a_challenge_is_none(page: Response) -> None:
    assert find_block(page) is None


@pytest.mark.parametrize("headers", VENDOR_HEADERS, ids=lambda headers: headers[0][0])
def test_the_headers_of_a_vendor_alone_are_no_block(headers: tuple[tuple[str, str], ...]) -> None:
    for status in (200, 403, 503):
        assert find_block(response(status, "<title>a page</title><p>text</p>", *headers)) is None


def test_the_answer_to_head_has_no_body_to_be_missing() -> None:
    page = response(403, "", ("x-kpsdk-ct", "0aBcD"), ("set-cookie", "kpsdk=1"))
    assert find_block(page) is not None
    assert find_block(page, has_body=False) is None


def test_a_block_in_a_large_page_of_a_site_is_not_looked_for() -> None:
    _, block = BLOCKS["cloudflare challenge with status 200"]
    padded = response(200, block.body.decode() + "x" * 20_000, *block.headers)
    assert find_block(padded) is None
    assert find_block(response(200, block.body.decode() + LINKS, *block.headers)) is None
