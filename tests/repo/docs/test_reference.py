"""The reference says what the code says, and leaves nothing out."""

import ast
import re
from pathlib import Path

import pytest
from docs.making.reference import FOLDER, pages

from shoal.cli.process.exit_codes import MEANING, ExitCode
from shoal.cli.process.request_lines import EVENTS
from shoal.model.configuration.configure import DESCRIPTIONS
from shoal.model.failure import CONSEQUENCE, POLICY, Action, FailureClass
from shoal.model.settings import HostSettings

SOURCE = Path(__file__).parents[3] / "src" / "shoal"


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_page_of_the_reference_is_as_the_code_has_it(path: Path) -> None:
    assert path.read_text() == pages()[path], "`make docs` writes it anew"


@pytest.mark.parametrize("key", DESCRIPTIONS)
def test_every_setting_says_what_it_does_in_one_sentence(key: str) -> None:
    assert re.fullmatch(r"[A-Z].{10,160}\.", DESCRIPTIONS[key])
    assert f"| `{key}` | {DESCRIPTIONS[key]} |" in (FOLDER / "settings.md").read_text()


def test_every_key_of_a_host_is_one_of_the_crawls() -> None:
    assert {f"crawl.{name}" for name in HostSettings.__annotations__} <= set(DESCRIPTIONS)


@pytest.mark.parametrize("kind", FailureClass)
def test_every_failure_class_says_when_it_is_met(kind: FailureClass) -> None:
    assert f"| `{kind}` | {POLICY[kind].when} |" in (FOLDER / "failures.md").read_text()


def test_every_action_and_every_exit_code_has_a_meaning() -> None:
    assert set(CONSEQUENCE) == set(Action)
    assert set(MEANING) == set(ExitCode)


def events() -> set[str]:
    """Find what is logged: the first argument of `log.info` and the like."""
    return {
        str(call.args[0].value)
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    } | EVENTS


def test_every_event_of_the_log_is_explained() -> None:
    explained = set(re.findall(r"^\| `([a-z_.]+)` \|", (FOLDER / "logs.md").read_text(), re.MULTILINE))
    assert events() - explained == set()
