"""What a command does to a crawl, and what to type next, for the terminal."""

from collections.abc import Iterator

from shoal.services.crawl import Decision, RunAction

_SAID_ELSEWHERE = (RunAction.BEGIN, RunAction.RESUME, RunAction.REFUSE, RunAction.NOTHING)


def decision_lines(decision: Decision) -> Iterator[str]:
    """Yield why a crawl runs as it does; what the opening says anyway is left out."""
    if decision.action not in _SAID_ELSEWHERE:
        yield decision.reason
    if decision.action is not RunAction.NOTHING:
        yield from decision.notes


_WOULD = {
    RunAction.BEGIN: "Would begin: ",
    RunAction.RENEW: "Would begin a new generation: ",
    RunAction.REFUSE: "Would refuse: ",
    RunAction.EXTEND: "Would extend: ",
    RunAction.RETRY: "Would try again: ",
    RunAction.RESUME: "Would resume: ",
    RunAction.NOTHING: "",
}


def nothing_lines(decision: Decision) -> Iterator[str]:
    """Yield that there is nothing to do, or what there would be to do, and the ways on."""
    yield f"{_WOULD[decision.action]}{decision.reason}"
    for note in decision.notes:
        yield f"  {'note':<10} {note}"
    for number, way in enumerate(decision.ways):
        yield f"{'Next: ' if not number else '      '}{way}"
