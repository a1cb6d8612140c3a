"""A small shop behind a wall: what a crawl meets on sites that do not like to be crawled.

    /open/      plain pages
    /members/   the address that asks first is challenged, another one is served
    /guarded/   clients that do not look like a browser are challenged
    /app/       empty pages that JavaScript fills
    /feed       a list that JavaScript extends when it is scrolled
    /more       a list that JavaScript shows when a button is clicked

More than `RATE` pages per second are answered with 429.
"""

import json
import time
from collections import deque
from collections.abc import Mapping

from shoal.cli.demo.shop import Reply

PAGES = 6  # of each section
BATCH, BATCHES = 5, 3  # of the list that is scrolled
MORE = 7  # products of the list behind the button
RATE = 8

SECTIONS = ("open", "members", "guarded", "app")
FEED, CLICKED = "feed", "more"

CHALLENGE = (
    "<!doctype html><html><head><title>Just a moment...</title></head><body><h1>Checking your browser</h1>"
    "<p>Please wait.</p></body></html>"
)
_SCRIPT = """
const root = document.getElementById("root");
const show = item => {
  const part = document.createElement("article");
  part.dataset.sku = item.sku;
  part.innerHTML = `<h1>${item.name}</h1><p class="price">${item.price}</p>`;
  root.append(part);
};
const load = async url => (await (await fetch(url)).json()).forEach(show);
const [, section, name] = location.pathname.split("/");
if (section === "app") load(`/api/app/${name}`);
if (section === "feed") {
  let batch = 0, busy = false;
  const next = async () => {
    if (busy || batch >= BATCHES) return;
    busy = true;
    await load(`/api/feed/${++batch}`);
    root.lastElementChild.style.marginBottom = "1500px";
    busy = false;
  };
  addEventListener("scroll", () => {
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 10) next();
  });
  next();
}
if (section === "more") {
  const button = document.createElement("button");
  button.className = "more";
  button.textContent = "Show all";
  button.onclick = async () => { await load("/api/more/1"); button.remove(); };
  document.body.append(button);
}
""".replace("BATCHES", str(BATCHES))
_SHELL = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The Harbour Shop</title>'
    '<script src="/app.js" defer></script></head><body><noscript>This shop needs JavaScript.</noscript>'
    '<div id="root"></div></body></html>'
)
_JSON = "application/json"


def sku(section: str, number: int) -> str:
    return f"{section.upper()}-{number}"


def all_skus() -> set[str]:
    """Return the products of the shop: what a crawl has to find."""
    found = {sku(section, number) for section in SECTIONS for number in range(1, PAGES + 1)}
    found |= {sku(FEED, number) for number in range(1, BATCH * BATCHES + 1)}
    return found | {sku(CLICKED, number) for number in range(1, MORE + 1)}


class Wall:
    """Answers requests; `rate`: pages per second, 0: any number."""

    def __init__(self, rate: int = RATE) -> None:
        self._rate = rate
        self._times: deque[float] = deque()
        self._unwelcome = ""  # the address that /members/ challenges
        self.refused = 0  # pages answered with 429
        self.challenges = 0

    def reply(self, path: str, headers: Mapping[str, str], address: str) -> Reply:
        if path == "/robots.txt":
            return Reply(200, "User-agent: *\nAllow: /\n", "text/plain; charset=utf-8")
        if path == "/app.js":
            return Reply(200, _SCRIPT, "text/javascript; charset=utf-8")
        if path.startswith("/api/"):
            return _items(*path.split("/")[2:4])
        if self._is_too_fast(time.monotonic()):
            self.refused += 1
            return Reply(429, "Slow down", "text/plain", headers=(("Retry-After", "1"),))
        return self._page(path, headers, address)

    def _page(self, path: str, headers: Mapping[str, str], address: str) -> Reply:
        if path == "/":
            return Reply(200, _home())
        if path in (f"/{FEED}", f"/{CLICKED}"):
            return Reply(200, _SHELL)
        section, _, name = path.strip("/").partition("/")
        if section not in SECTIONS or not name.isdecimal() or not 1 <= int(name) <= PAGES:
            return Reply(404, "Not here", "text/plain")
        if section == "members":
            self._unwelcome = self._unwelcome or address
        blocked = section == "guarded" and "Mozilla/5.0" not in headers.get("user-agent", "")
        if blocked or (section == "members" and address == self._unwelcome):
            self.challenges += 1
            return Reply(403, CHALLENGE, headers=(("cf-mitigated", "challenge"),))
        return Reply(200, _SHELL if section == "app" else _product(section, int(name)))

    def _is_too_fast(self, now: float) -> bool:
        if not self._rate:
            return False
        while self._times and self._times[0] <= now - 1.0:
            self._times.popleft()
        if len(self._times) >= self._rate:
            return True
        self._times.append(now)
        return False


def _home() -> str:
    links = [f"/{section}/{number}" for section in SECTIONS for number in range(1, PAGES + 1)]
    entries = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The Harbour Shop</title></head>'
        f'<body><h1>The Harbour Shop</h1><ul>{entries}</ul><a href="/{FEED}">News</a>'
        f'<a class="clicked" href="/{CLICKED}">More</a></body></html>'
    )


def _product(section: str, number: int) -> str:
    text = "Landed this morning, and sold at the quay until noon. " * 5
    return (
        f'<!doctype html><html lang="en"><body><article data-sku="{sku(section, number)}">'
        f"<h1>Fish {number}</h1>"
        f'<p class="price">{number}.50</p></article><p>{text}</p></body></html>'
    )


def _items(section: str, name: str) -> Reply:
    if not name.isdecimal() or len(name) > 3:
        return Reply(404, "Not here", "text/plain")
    first, count = {"feed": ((int(name) - 1) * BATCH + 1, BATCH), "more": (1, MORE)}.get(
        section, (int(name), 1)
    )
    items = [
        {"sku": sku(section, number), "name": f"Fish {number}", "price": f"{number}.50"}
        for number in range(first, first + count)
    ]
    return Reply(200, json.dumps(items), _JSON)
