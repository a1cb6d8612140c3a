"""Item hooks: functions of a spider that change, check or drop every item before it is written."""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.model.crawl_totals import OTHER_REASONS
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import MAX_REASON_CHARS
from shoal.spider.items import is_item

if TYPE_CHECKING:
    from shoal.spider.failed import FailedRequest
    from shoal.spider.page import Page

MAX_REASONS = 20  # of one page that are counted by name
MAX_REASON_BYTES = 200  # stores keep it as part of a short name


class Drop(Exception):
    """Raised by an item hook to drop the item: `raise shoal.Drop("no price")`.

    Dropped items are counted by reason, so keep reasons short and few.
    """


class ItemHook(msgspec.Struct, frozen=True):
    name: str
    call: Callable[..., Any]
    wants_page: bool


def item_hook(function: Callable[..., Any], spider: str) -> ItemHook:
    """Return the hook that a function is; raise `Misconfigured` if it does not take an item."""
    name = getattr(function, "__name__", "hook")
    for wants_page, arguments in ((False, (None,)), (True, (None, None))):
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError:
            continue
        return ItemHook(name, function, wants_page)
    raise Misconfigured(
        f"spider {spider!r}: the item hook {name} must take the item, or the item and its page"
    )


def run_item_hooks(hooks: Sequence[ItemHook], item: Any, subject: "Page | FailedRequest") -> object:
    """Return what the hooks make of an item, in their order. Raises `Drop` if one of them drops it."""
    for hook in hooks:
        item = hook.call(item, subject) if hook.wants_page else hook.call(item)
        if item is None:
            raise Drop(f"{hook.name} returned None")
        if not is_item(item):
            raise Rejected(f"item hook {hook.name}: it must return an item, not a {type(item).__name__}")
    return item


def drop_reason(drop: Drop) -> str:
    """Return the reason of a dropped item on one short line."""
    try:
        text = " ".join(str(drop).split())[:MAX_REASON_CHARS]
    except Exception:  # __str__ of a user's exception is user code
        text = ""
    return text.encode("utf-8", "replace")[:MAX_REASON_BYTES].decode("utf-8", "ignore") or "no reason given"


def add_reason(counts: dict[str, int], reason: str) -> None:
    """Count a reason; when there are many different ones, under `OTHER_REASONS`."""
    if reason not in counts and len(counts) >= MAX_REASONS:
        reason = OTHER_REASONS
    counts[reason] = counts.get(reason, 0) + 1
