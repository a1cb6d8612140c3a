"""A host: its governor, and the lanes that share it."""

import math
from typing import TYPE_CHECKING

from shoal.frontier.governor import USUAL_RULES, Governor
from shoal.frontier.rules import HostRecord

if TYPE_CHECKING:
    from shoal.frontier.sqlite.lane import Lane


class HostState(Governor):
    __slots__ = ("id", "lanes", "name")

    def __init__(self, id: int, name: str, record: HostRecord, *, last: float = -math.inf) -> None:
        super().__init__(record, last=last)
        self.id = id
        self.name = name
        self.lanes: list[Lane] = []

    def join(self, lane: "Lane") -> None:
        """Take a lane in: its crawl has a say in the pace from now on."""
        self.lanes.append(lane)
        self.repace()

    def repace(self) -> None:
        """Work out the pace anew; the crawl that joined first says how the host slows down."""
        crawls = [lane.crawl for lane in self.lanes]
        self.follow(
            {crawl.terms.pace_at(self.name) for crawl in crawls},
            crawls[0].terms.slowdown if crawls else USUAL_RULES,
        )
