"""The table of hostile inputs in `docs/reference/hostile-inputs.md`."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from tests.hostile.case import Case
from tests.hostile.crawling import ends_of
from tests.hostile.groups import ELSEWHERE, GROUPS

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "hostile-inputs.md"
BEGIN, END = "<!-- hostile inputs: written by `make hostile` -->", "<!-- end of hostile inputs -->"


def all_cases() -> list[Case]:
    return [case for group in GROUPS.values() for case in group.cases]


def rendered(held: Mapping[str, bool]) -> str:
    """Draw the table, given which cases (by id) ended as they must."""
    lines = ["| case | what is done | how it must end | ended so |", "|---|---|---|---|"]
    for row, cases in groupby(sorted(all_cases(), key=_order), key=lambda case: case.row):
        several = list(cases)
        ends = dict.fromkeys(end for case in several for end in _ends(case))
        whats = dict.fromkeys(case.what for case in several)
        result = f"{sum(held.get(case.id, False) for case in several)} of {len(several)}"
        lines.append(f"| {row} | {_cell('; '.join(whats))} | {', '.join(ends)} | {result} |")
    for other in ELSEWHERE:
        file = other.test.partition("::")[0]
        lines.append(f"| {other.row} | {other.what} | {other.ends} | `{file}` |")
    return "\n".join(lines)


def _order(case: Case) -> tuple[int, str]:
    return "NHTPURSXBCLEM".index(case.row[0]), case.row


def _ends(case: Case) -> Iterable[str]:
    """Yield how the requests of a case end, without the redirects that were followed."""
    states = dict.fromkeys(ends_of(case).values())
    telling = [state for state in states if state not in ("done", "nowhere")] or ["done"]
    for state in telling:
        yield " or ".join(
            f"`{one.removeprefix('dead ').removeprefix('filtered ')}`" for one in state.split("|")
        )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{canary}", "…").replace("<", "&lt;")


def in_document() -> str:
    """Return the table of the document."""
    text = DOCUMENT.read_text()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()


def write(table: str) -> None:
    text = DOCUMENT.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text(f"{before}\n\n{table}\n\n{after}")
