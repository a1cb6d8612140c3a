"""The fuzzing driver detects what it is there for: wrong errors, quadratic time, memory out of proportion."""

import re

import pytest
from tests.fuzzing import KIB, Parser, check_errors, check_growth, check_memory

LINEAR = Parser("linear", lambda data: data.count(b"a"), (b"aaa",), (b"a", b"b"))


def test_a_sound_parser_passes() -> None:
    check_errors(LINEAR, rounds=50)
    check_growth(LINEAR, max_bytes=64 * KIB)
    check_memory(LINEAR, max_bytes=64 * KIB)


def test_an_unexpected_error_is_reported_with_its_input() -> None:
    parser = Parser("strict", lambda data: data.decode(), (b"text",), (b"a",))
    with pytest.raises(AssertionError, match="strict: UnicodeDecodeError"):
        check_errors(parser, rounds=200)
    check_errors(Parser("strict", parser.parse, parser.samples, parser.tokens, (ValueError,)), rounds=200)


def test_quadratic_time_is_reported() -> None:
    backtracking = re.compile(rb"\s*x|a")
    parser = Parser("backtracking", backtracking.findall, (b" ",), (b" ",), seconds_per_mib=1000)
    with pytest.raises(AssertionError, match=r"backtracking: .* s for .* bytes"):
        check_growth(parser)


def test_memory_out_of_proportion_is_reported() -> None:
    parser = Parser("greedy", lambda data: [bytes(4096) for _ in data], (b"a",), (b"a",))
    with pytest.raises(AssertionError, match=r"greedy: .* MiB"):
        check_memory(parser, max_bytes=64 * KIB)
