"""Messages about webhooks."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.model.api.crawls import CrawlName
from shoal.model.api.submission import Url

WebhookEvent = Literal["crawl.finished", "alert.raised", "alert.cleared", "items"]
WebhookName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(?!\n)$", max_length=64)]


class NewWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where events go. `items` needs the name of a crawl."""

    name: WebhookName
    url: Url
    events: Annotated[list[WebhookEvent], Meta(min_length=1, max_length=10)]
    crawl: CrawlName | None = None  # only events of this crawl; alerts are of the whole store


class WebhookInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    url: str
    events: list[str]
    crawl: str
    created_at: float
    delivered: int = 0
    dropped: int = 0
    waiting: int = 0
    problem: str = ""  # of the latest failed attempt
    secret: str = ""  # in the answer to its creation only


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    webhooks: list[WebhookInfo]


class OneWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    webhook: Annotated[str, Meta(min_length=1, max_length=64)]


class RemovedWebhook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    removed: bool = True
