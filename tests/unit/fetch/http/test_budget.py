"""The bytes of all large bodies together."""

import random

from shoal.fetch.http.budget import BodyBudget


class Body:
    def __init__(self) -> None:
        self.flows = True

    def pause(self) -> None:
        assert self.flows
        self.flows = False

    def resume(self) -> None:
        assert not self.flows
        self.flows = True


def test_bodies_flow_while_there_is_room() -> None:
    budget, bodies = BodyBudget(100), [Body() for _ in range(3)]
    for body in bodies:
        budget.hold(body, 33)
    assert all(body.flows for body in bodies)


def test_the_one_that_goes_beyond_pauses_and_the_oldest_never_does() -> None:
    budget, old, new = BodyBudget(100), Body(), Body()
    budget.hold(old, 90)
    budget.hold(new, 20)
    budget.hold(old, 500)
    assert (old.flows, new.flows) == (True, False)


def test_released_bytes_resume_other_transfers() -> None:
    budget, old, new = BodyBudget(100), Body(), Body()
    budget.hold(old, 90)
    budget.hold(new, 20)
    budget.free(old)
    assert new.flows


def test_the_next_oldest_continues_even_if_it_is_above_the_limit() -> None:
    budget, old, new, last = BodyBudget(100), Body(), Body(), Body()
    budget.hold(old, 50)
    budget.hold(new, 400)
    budget.hold(last, 1)
    budget.free(old)
    assert (new.flows, last.flows) == (True, False)


def test_freeing_what_was_never_held_changes_nothing() -> None:
    BodyBudget(100).free(Body())


def test_one_transfer_always_continues_and_all_end() -> None:
    dice = random.Random(7)
    budget, held = BodyBudget(1000), dict[Body, int]()
    for _ in range(5000):
        if held and dice.random() < 0.2:
            body = dice.choice(list(held))
            del held[body]
            budget.free(body)
        else:
            body = dice.choice([Body(), *(b for b in held if b.flows)])
            held[body] = held.get(body, 0) + dice.randint(1, 300)
            budget.hold(body, held[body])
        assert not held or next(iter(held)).flows
        if sum(held.values()) <= 1000:
            assert all(body.flows for body in held)
