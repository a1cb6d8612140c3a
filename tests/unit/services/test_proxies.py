"""The exits of a store as a table shows them."""

import pytest

from shoal.model.errors import Misconfigured
from shoal.model.exits.exit import parse_exit
from shoal.model.exits.health import ExitRecord
from shoal.services.live.archived import page_ref
from shoal.services.proxies import exit_states


def test_hosts_for_which_an_exit_rests_are_counted_for_it_alone() -> None:
    stored = {
        "e/gate": ExitRecord(),
        "h/gate/a.example": ExitRecord(rest_until=20.0),
        "h/gate/b.example:8080": ExitRecord(rest_until=20.0),
        "h/gate/c.example": ExitRecord(rest_until=5.0),
        "h/gate2/a.example": ExitRecord(rest_until=20.0),
    }
    exits = [parse_exit("http://h:1 name=gate"), parse_exit("http://h:2 name=gate2")]
    found = {one.name: one.hosts_resting for one in exit_states(exits, stored, 10.0)}
    assert found == {"gate": 2, "gate2": 1}


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, 0), (0, 1 << 31)])
def test_a_client_cannot_have_a_whole_segment_read(offset: int, length: int) -> None:
    with pytest.raises(Misconfigured):
        page_ref("any", offset, length)
