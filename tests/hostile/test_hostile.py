"""A cut of the hostile web, and that its table tells the truth. `make hostile` runs all of it."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hostile.case import Case, once, page
from tests.hostile.crawling import PARSE_MEMORY, run
from tests.hostile.oracle import complaints
from tests.hostile.private import contacted

ROOT = Path(__file__).parents[2]
# Importing the cases makes 30 MB of pages, so only the tests that need them do: every test process imports this module.
GROUPS_WITH_A_CUT = ("web", "beyond", "pages", "robots", "browser", "exits")
# `make hostile` runs alone and allows none of these. Beside other tests a worker may not look at a renderer for a
# while, in which a page fills its memory, and one more parse process may be at its limit before the last one has ended.
BUSY_RENDERER = 768 << 20
BUSY_PARSER = PARSE_MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS_WITH_A_CUT)
async def test_every_case_ends_in_its_class_and_affects_no_other_host(name: str, tmp_path: Path) -> None:
    from tests.hostile.groups import GROUPS

    group = GROUPS[name]
    terms = replace(group.terms, room=group.terms.room + BUSY_PARSER)
    if terms.renders:
        terms = replace(terms, room=terms.room + BUSY_RENDERER, child_room=terms.child_room + BUSY_RENDERER)
    crawled = await run(group.cut, tmp_path, terms)
    assert list(complaints(crawled, group.cut)) == []


async def test_a_case_that_ends_otherwise_is_noticed(tmp_path: Path) -> None:
    wrong = [
        Case("X1", "a page that is fine", once(page()), "dead bomb"),
        Case("X2", "a page that is gone", once(page(status=404)), "done"),
        Case("X3", "a page with a secret", once(page("<title>hunter2</title>")), "done"),
    ]
    found = "\n".join(complaints(await run(wrong, tmp_path), wrong))
    assert "X1: http://{at}/: done (), not dead bomb" in found
    assert "X2: http://{at}/: gone" in found
    assert "a secret in" in found
    assert "a well-behaved page" not in found


def test_without_leave_no_private_address_is_contacted(tmp_path: Path) -> None:
    assert contacted(tmp_path) == []


def test_every_group_with_a_cut_is_crawled() -> None:
    from tests.hostile.groups import GROUPS

    assert tuple(name for name, group in GROUPS.items() if group.cut) == GROUPS_WITH_A_CUT


def test_the_table_in_the_documentation_is_current() -> None:
    from tests.hostile import table

    assert table.in_document() == table.rendered({case.id: True for case in table.all_cases()})


def test_the_names_of_cases_are_unique() -> None:
    from tests.hostile import table

    names = [case.id for case in table.all_cases()]
    assert len(names) == len(set(names))


def test_what_is_tested_elsewhere_is_there() -> None:
    from tests.hostile.groups import ELSEWHERE

    for other in ELSEWHERE:
        file, _, name = other.test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        assert any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
            for node in ast.walk(tree)
        ), other.test
