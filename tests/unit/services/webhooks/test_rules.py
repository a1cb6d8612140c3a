"""Which events a change means, and when a delivery is tried again."""

import pytest

from shoal.model.alert import Alert, AlertKind
from shoal.services.webhooks.rules import (
    LONGEST_RETRY_S,
    MAX_ATTEMPTS,
    SeenCrawl,
    SeenStore,
    StoredWebhook,
    WebhookDelivery,
    WebhookPosition,
    after_failure,
    detect,
    make_delivery,
    signature,
)

HOOK = StoredWebhook(
    name="hook",
    url="https://a.test/",
    events=("crawl.finished", "alert.raised", "alert.cleared"),
    secret="s",
    created_at=100.0,
)


@pytest.mark.parametrize(
    ("before", "crawls", "events", "after"),
    [
        ({}, {"a": SeenCrawl(5, finished=False)}, 0, {}),
        ({}, {"a": SeenCrawl(5, finished=True)}, 1, {"a": 5}),
        ({"a": 5}, {"a": SeenCrawl(5, finished=True)}, 0, {"a": 5}),  # known
        ({"a": 5}, {"a": SeenCrawl(9, finished=True)}, 1, {"a": 9}),  # it has fetched more since
        ({"a": 5}, {"a": SeenCrawl(9, finished=False)}, 0, {}),  # it runs again
        ({"a": 5}, {}, 0, {}),  # it was deleted
    ],
)
def test_a_crawl_that_finishes_is_one_event(
    before: dict[str, int], crawls: dict[str, SeenCrawl], events: int, after: dict[str, int]
) -> None:
    found = detect(HOOK, WebhookPosition(finished=before), SeenStore(crawls), 200.0)
    assert len(found.deliveries) == events
    assert found.position.finished == after


def test_every_generation_of_a_crawl_is_another_event_also_with_as_many_requests() -> None:
    first = detect(HOOK, WebhookPosition(), SeenStore({"a": SeenCrawl(5, finished=True, began=10.0)}), 200.0)
    again = SeenStore({"a": SeenCrawl(5, finished=True, began=20.0)})
    second = detect(HOOK, first.position, again, 201.0)
    ids = [one.id for found in (first, second) for one in found.deliveries]
    assert len(set(ids)) == len(ids) == 2
    assert detect(HOOK, second.position, again, 202.0).deliveries == []


def test_an_alert_is_sent_when_it_is_raised_and_when_it_is_cleared_and_not_again() -> None:
    alert = Alert(kind=AlertKind.LATENCY, about="a", cause="slow", since=110.0, raised_at=120.0)
    old = Alert(kind=AlertKind.LATENCY, about="b", cause="slow", since=10.0, raised_at=20.0)
    raised = detect(HOOK, WebhookPosition(), SeenStore({}, [alert, old]), 200.0)
    assert [one.event for one in raised.deliveries] == ["alert.raised"]
    assert detect(HOOK, raised.position, SeenStore({}, [alert]), 201.0).deliveries == []
    cleared = detect(HOOK, raised.position, SeenStore({}, [], [alert]), 202.0)
    assert [one.event for one in cleared.deliveries] == ["alert.cleared"]


def test_the_same_event_has_the_same_id_and_another_webhook_another() -> None:
    one = make_delivery(HOOK, "crawl.finished", {"crawl": "a"}, "a/5", 1.0)
    again = make_delivery(HOOK, "crawl.finished", {"crawl": "a"}, "a/5", 2.0)
    assert one.id == again.id
    assert make_delivery(HOOK, "crawl.finished", {"crawl": "a"}, "a/6", 1.0).id != one.id


def test_attempts_come_later_and_later_and_end() -> None:
    delivery: WebhookDelivery | None = WebhookDelivery(
        id="1", webhook="hook", event="items", body=b"", created_at=0.0
    )
    waits = []
    while delivery is not None:
        found = after_failure(delivery, "x" * 1000, 0.0)
        if found is not None:
            waits.append(found.next_at)
            assert len(found.problem) == 300
        delivery = found
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_RETRY_S
    assert len(waits) == MAX_ATTEMPTS - 1


def test_a_signature_covers_time_and_body() -> None:
    signed = {
        signature("s", "1", b"a"),
        signature("s", "2", b"a"),
        signature("s", "1", b"b"),
        signature("t", "1", b"a"),
    }
    assert len(signed) == 4
