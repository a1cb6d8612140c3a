"""A clock that only moves when told to."""

START = 1_800_000_000.0


class ManualClock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
