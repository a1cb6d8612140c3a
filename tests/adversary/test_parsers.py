"""No text from outside raises an unexpected error in a parser, or takes time or memory out of proportion."""

import sys
from pathlib import Path

import pytest
from tests.adversary.parsers import NO_PARSER, PARSERS, READERS
from tests.adversary.size import sized
from tests.fuzzing import KIB, MIB, Parser, check_errors, check_growth, check_memory, run

import shoal

_PACKAGE = Path(shoal.__file__).parent


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_parser_survives_damaged_input(parser: Parser) -> None:
    check_errors(parser, rounds=sized(100, full=10_000))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_time_of_a_parser_grows_with_its_input_and_not_faster(parser: Parser) -> None:
    check_growth(parser, max_bytes=sized(32 * KIB, full=1 * MIB), shapes=sized(60, full=1000))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_the_memory_of_a_parser_grows_with_its_input_and_not_faster(parser: Parser) -> None:
    check_memory(parser, max_bytes=sized(64 * KIB, full=4 * MIB), shapes=sized(4, full=100))


def test_every_module_that_reads_outside_text_is_fuzzed() -> None:
    """Each function of the modules in `READERS` runs for a sample of some parser, at least one for each module."""
    wanted = {module for reader in READERS for module in _modules(reader)} - set(NO_PARSER)
    reached: set[str] = set()

    def trace(frame: object, event: str, argument: object) -> None:
        if event == "call":
            reached.add(frame.f_code.co_filename)  # type: ignore[attr-defined]

    sys.setprofile(trace)
    try:
        for parser in PARSERS:
            for sample in parser.samples:
                run(parser, sample)
    finally:
        sys.setprofile(None)
    missing = {module for module in wanted if str(_PACKAGE / f"{module}.py") not in reached}
    assert not missing, f"add a row to tests/adversary/parsers.py for {sorted(missing)}"


def _modules(reader: str) -> list[str]:
    folder = _PACKAGE / reader
    found = (
        [path for path in folder.rglob("*.py") if path.name != "__init__.py"] if folder.is_dir() else [folder]
    )
    return [str(path.relative_to(_PACKAGE).with_suffix("")) for path in found]
