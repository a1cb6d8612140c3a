"""A page that tries every way in which a browser can send something, each to another URL."""

from collections.abc import Callable

WORKER_PATH, BOUNCE_PATH = (
    "/worker.js",
    "/bounce",
)  # on the page's own host: a service worker, a redirect to `bounced`

# By the first argument of `url`: those that a headless browser without any restriction is seen to use. The page
# tries others as well, in case a later release uses them.
WAYS = (
    "image", "prefetch", "module", "style", "font", "frame", "object", "embed", "srcdoc", "ping", "fetch", "xhr",
    "socket", "events", "beacon", "worker", "shared", "service", "bounced", "stun", "turn", "popup", "form",
    "download", "video", "transport", "keepalive",
)  # fmt: skip


def ways_out(url: Callable[[str, str], str], authority: Callable[[str], str], title: str = "ways") -> str:
    """Return the page. `url(way, scheme)` is where a way leads, `authority(way)` the same without scheme and path."""

    def to(way: str, scheme: str = "http") -> str:
        return url(way, scheme)

    return f"""<title>{title}</title><link rel=icon href="{to("icon")}"><img src="{to("image")}">
<link rel=prefetch href="{to("prefetch")}"><link rel=prerender href="{to("prerender")}">
<link rel=preconnect href="{to("preconnect")}"><link rel=dns-prefetch href="{to("dns")}">
<link rel=modulepreload href="{to("module")}"><link rel=manifest href="{to("manifest")}">
<link rel=stylesheet href="{to("style")}">
<style>@font-face {{ font-family: x; src: url({to("font")}) }} p {{ font-family: x }}</style>
<script type=speculationrules>{{"prefetch": [{{"urls": ["{to("rules")}"]}}],
"prerender": [{{"urls": ["{to("rules")}"]}}]}}</script>
<iframe src="{to("frame")}"></iframe><object data="{to("object")}"></object><embed src="{to("embed")}">
<video src="{to("video")}" autoplay muted></video><iframe srcdoc="<img src='{to("srcdoc")}'>"></iframe>
<a id=ping ping="{to("ping")}" href="#x">x</a><iframe name=files></iframe><a id=download download target=files href="{to("download")}">x</a>
<form id=form target=other action="{to("form")}" method=post></form>
<p>loaded<script>
const quietly = (work) => {{ try {{ work() }} catch (error) {{}} }};
const inside = (way) => URL.createObjectURL(new Blob([`fetch("${{way}}", {{mode: "no-cors"}})`]));
fetch('{to("fetch")}', {{mode: 'no-cors'}}).catch(() => 0);
fetch('{to("keepalive")}', {{mode: 'no-cors', keepalive: true}}).catch(() => 0);
fetch('{BOUNCE_PATH}', {{mode: 'no-cors'}}).catch(() => 0);
const xhr = new XMLHttpRequest(); xhr.open('GET', '{to("xhr")}'); quietly(() => xhr.send());
quietly(() => new WebSocket('{to("socket", "ws")}'));
quietly(() => {{ const events = new EventSource('{to("events")}'); events.onerror = () => events.close() }});
quietly(() => navigator.sendBeacon('{to("beacon")}', 'x'));
quietly(() => new Worker(inside('{to("worker")}')));
quietly(() => new SharedWorker(inside('{to("shared")}')));
quietly(() => navigator.serviceWorker.register('{WORKER_PATH}'));
quietly(() => {{ const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{authority("stun")}'}},
  {{urls: ['turn:{authority("turn")}', 'turn:{authority("turn")}?transport=tcp'], username: 'x', credential: 'y'}}]}});
  peer.onicecandidate = (found) => found.candidate && (document.title += ' ' + found.candidate.candidate);
  peer.createDataChannel('x'); peer.createOffer().then((offer) => peer.setLocalDescription(offer)); }});
quietly(() => new WebTransport('{to("transport", "https")}').ready.catch(() => 0));
quietly(() => document.getElementById('ping').click());
quietly(() => document.getElementById('form').submit());
quietly(() => document.getElementById('download').click());
quietly(() => window.open('{to("popup")}'));
</script>"""


def service_worker(url: str) -> str:
    """Return a service worker that sends something when it is installed."""
    return f"self.oninstall = (event) => event.waitUntil(fetch('{url}', {{mode: 'no-cors'}}).catch(() => 0))"
