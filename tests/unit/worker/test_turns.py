from shoal.worker.turns import CrawlTurn, make_room


def test_no_crawl_makes_room_while_none_waits() -> None:
    assert make_room({"a": CrawlTurn(running_s=900.0), "b": CrawlTurn()}) == []


def test_those_that_have_run_longest_make_room_one_for_each_that_waits() -> None:
    turns = {
        "young": CrawlTurn(running_s=10.0),
        "old": CrawlTurn(running_s=100.0),
        "oldest": CrawlTurn(running_s=200.0),
        "one": CrawlTurn(waiting=True),
    }
    assert make_room(turns) == ["oldest"]
    assert make_room({**turns, "two": CrawlTurn(waiting=True), "three": CrawlTurn(waiting=True)}) == [
        "oldest",
        "old",
    ]
