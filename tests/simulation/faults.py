"""Lets the faults of a plan strike, one after the other, by event or by time."""

import asyncio
from collections.abc import Callable, Sequence

from tests.simulation.clock import world
from tests.simulation.disk import crash_points
from tests.simulation.loop import Node
from tests.simulation.plan import Fault


class Faults:
    """`strike` is called with a fault and the node that made the event; None: the scenario chooses one."""

    def __init__(self, faults: Sequence[Fault], strike: Callable[[Fault, Node | None], None]) -> None:
        self._left = list(faults)
        self._strike = strike
        self._armed: Fault | None = None
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Arm the first fault."""
        self._arm()

    def end(self) -> None:
        """Stop all further faults."""
        self._left.clear()
        self._armed = None
        crash_points.countdown = 0
        if self._timer is not None:
            self._timer.cancel()

    def note(self, event: str, node: Node) -> None:
        """Count an event of a node; the fault that waits for it strikes now."""
        armed = self._armed
        if armed is None or armed.on != event or not node.mortal or node.dead:
            return
        self._seen += 1
        if self._seen >= armed.count:
            self._fire(node)

    def crashed(self) -> None:
        """Arm the next fault after a crash point has struck."""
        if self._armed is not None and self._armed.kind == "crash":
            self._arm()

    def _arm(self) -> None:
        self._seen = 0
        self._armed = fault = self._left.pop(0) if self._left else None
        if fault is None:
            return
        if fault.on == "time":
            self._timer = asyncio.get_running_loop().call_later(fault.count, self._fire, None)
        elif fault.kind == "crash":
            crash_points.countdown, crash_points.part = int(fault.count), fault.part

    def _fire(self, node: Node | None) -> None:
        fault = self._armed
        if fault is None:
            return
        world.log("fault", fault.kind, fault.on, node or "")
        self._strike(fault, node)
        self._arm()
