from shoal.worker.turns import Turn, make_room


def test_nobody_makes_room_while_nobody_waits() -> None:
    assert make_room({"a": Turn(running_s=900.0), "b": Turn()}) == []


def test_those_that_have_run_longest_make_room_one_for_each_that_waits() -> None:
    turns = {
        "young": Turn(running_s=10.0),
        "old": Turn(running_s=100.0),
        "oldest": Turn(running_s=200.0),
        "one": Turn(waiting=True),
    }
    assert make_room(turns) == ["oldest"]
    assert make_room({**turns, "two": Turn(waiting=True), "three": Turn(waiting=True)}) == ["oldest", "old"]
