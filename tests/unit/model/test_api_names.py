from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

from shoal.model.api import control, live, schedules, submission, webhooks

PATTERNED = {
    "a.jsonl": submission.OutputName,
    "crawl": submission.NewCrawlName,
    "field": submission.FieldName,
    "spider.py": submission.SpiderName,
    "nightly": schedules.ScheduleName,
    "chat": webhooks.WebhookName,
}


@pytest.mark.parametrize(("name", "kind"), PATTERNED.items())
def test_a_line_break_behind_a_name_is_not_part_of_it(name: str, kind: Any) -> None:
    assert msgspec.convert(name, kind) == name
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(f"{name}\n", kind)


@pytest.mark.parametrize("module", [control, live, schedules, submission, webhooks])
def test_no_pattern_ends_where_python_allows_a_line_break(module: ModuleType) -> None:
    patterns = [pattern for struct in vars(module).values() for pattern in _patterns(struct)]
    assert all(pattern.endswith(r"(?!\n)$") for pattern in patterns)


def _patterns(kind: Any) -> list[str]:
    found = [meta.pattern for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta) and meta.pattern]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [one for field in msgspec.structs.fields(kind) for one in _patterns(field.type)]
    return found
