from hypothesis import given
from hypothesis import strategies as st

from shoal.parse.batch import MAX_BYTES, MAX_PAGES, fit_in_message, share


def test_idle_children_share_what_there_is() -> None:
    assert share(waiting=5, takers=2) == 3
    assert share(waiting=2, takers=1) == 2
    assert share(waiting=1, takers=4) == 1


def test_a_message_has_an_upper_limit_of_pages() -> None:
    assert share(waiting=1000, takers=2) == MAX_PAGES


@given(waiting=st.integers(1, 200), takers=st.integers(1, 16))
def test_shares_never_leave_a_page_behind_while_there_is_room(waiting: int, takers: int) -> None:
    left = waiting
    for rank in range(min(takers, waiting)):
        left -= share(left, takers - rank)

    assert left == max(0, waiting - takers * MAX_PAGES)


def test_a_message_is_cut_where_it_gets_too_long() -> None:
    assert fit_in_message([MAX_BYTES // 2, MAX_BYTES // 2, 1], pages=16) == 2
    assert fit_in_message([10, 10, 10], pages=2) == 2


def test_a_page_of_any_size_fits_a_message_of_its_own() -> None:
    assert fit_in_message([100 * MAX_BYTES, 1], pages=16) == 1


def test_nothing_is_cut_from_nothing() -> None:
    assert fit_in_message([], pages=16) == 0
