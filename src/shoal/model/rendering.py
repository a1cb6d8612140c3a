"""How a page is rendered in a browser: what to wait for, what to do first, what to keep. Data, so that it is
archived with the request and can be repeated."""

import msgspec

MAX_ACTIONS = 50
MAX_SCROLLS = 200


class Click(msgspec.Struct, frozen=True, tag="click", tag_field="do"):
    """Click the first element that matches, once it is there."""

    selector: str


class Fill(msgspec.Struct, frozen=True, tag="fill", tag_field="do"):
    """Type a text into the first field that matches, in place of what it holds."""

    selector: str
    text: str = ""


class ScrollToEnd(msgspec.Struct, frozen=True, tag="scroll", tag_field="do"):
    """Scroll to the end, again while the page grows, at most `times` times."""

    times: int = 20
    pause_ms: int = 300


class WaitFor(msgspec.Struct, frozen=True, tag="wait", tag_field="do"):
    """Wait until all that is given holds: an element matches, a script is true, so much time is over."""

    selector: str = ""
    script: str = ""
    time_ms: int = 0


Action = Click | Fill | ScrollToEnd | WaitFor


class Rendering(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options of a page that is rendered.

    actions: done in this order after the page has loaded. idle_ms: the page counts as complete when its
    network has been quiet for this long; 0: as soon as it has loaded. images: load images, fonts and media
    as well. screenshot, pdf: kept beside the page.
    """

    actions: tuple[Action, ...] = ()
    idle_ms: int = 500
    images: bool = False
    screenshot: bool = False
    pdf: bool = False


def refuse_rendering(rendering: Rendering) -> str | None:
    """Return why a rendering cannot be carried out; None: it can."""
    if len(rendering.actions) > MAX_ACTIONS:
        return f"{len(rendering.actions)} actions; at most {MAX_ACTIONS} are allowed"
    for action in rendering.actions:
        match action:
            case Click(selector) | Fill(selector) if not selector.strip():
                return f"{type(action).__name__} needs a selector"
            case ScrollToEnd(times) if not 1 <= times <= MAX_SCROLLS:
                return f"ScrollToEnd: times must be 1 to {MAX_SCROLLS}, not {times}"
            case WaitFor("", "", time_ms) if time_ms <= 0:
                return "WaitFor needs a selector, a script or a time"
            case _:
                pass
    return None
