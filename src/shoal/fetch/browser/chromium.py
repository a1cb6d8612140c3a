"""Find, start and end Chromium: flags that close every way past the egress, no rights, a private network.

The flags were found by trying: a page with 40 ways out, on a machine whose system calls were traced.
`<-loopback>` and the WebRTC policy decide; the others are a second lock. The network namespace is the third:
in it, nothing but the egress can be reached, whatever a later release of the browser does.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shoal.fetch.browser.cdp import BrowserGone, CdpConnection
from shoal.fetch.browser.launcher import PROXY_PORT
from shoal.model.errors import Misconfigured
from shoal.model.printable import printable
from shoal.model.settings import BrowserSettings

PROGRAMS = (
    "chromium-headless-shell",  # a quarter of the CPU and less than half of the memory of the whole browser
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
UNPRIVILEGED = 65534
START_S = 30.0  # a cold start from a slow disk
END_S = 10.0
MAX_WORDS = 16 * 1024  # bytes of what a browser wrote last
WORDS_LINES, WORDS_CHARS = 8, 300
WORDS_S = 2.0  # for the last of it, once the browser has ended
LAUNCHER = Path(__file__).with_name("launcher.py")

FLAGS = (
    "--remote-debugging-pipe",
    "--proxy-server=http://127.0.0.1:1",  # the default context leads nowhere; contexts have their own proxy
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    "--password-store=basic",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # A shared worker outlives its page, and the browser does not ask about its requests.
    "--disable-shared-workers",
    "--js-flags=--max-old-space-size=512",
    # AutofillServerCommunication: the whole browser asks a server of its maker about pages with forms.
    # WebRtcHideLocalIpsWithMdns: a page with WebRTC makes the browser join a multicast group of the network.
    # The addresses that it hides are not given to pages anyway: the policy above allows none of them.
    # The others: one process per page, frames included, so that what is above a limit can be ended alone.
    # A browser context has nothing but the cookies of one crawl and host, which other sites could want.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,AutofillServerCommunication,WebRtcHideLocalIpsWithMdns",
)


@dataclass(slots=True)
class Chromium:
    """A running browser."""

    connection: CdpConnection
    pid: int  # of its launcher, whose child it is
    listener: socket.socket | None  # in its network namespace; None: it shares the network of this process
    proxy_port: int  # of the egress, as the browser sees it; 0: the port of the egress itself
    version: str  # name and version


def find_program(path: str = "") -> str:
    """Return the browser to start; raise `Misconfigured` with how to get one."""
    for name in [path] if path else PROGRAMS:
        if (found := shutil.which(name)) is not None:
            return found
    raise Misconfigured(missing_program(path))


def missing_program(path: str = "") -> str:
    """Return which browser is missing and how to get one; empty: it is there."""
    if any(shutil.which(name) for name in ([path] if path else PROGRAMS)):
        return ""
    wanted = f"browser.path: there is no program {path!r}" if path else "no Chromium is installed"
    return (
        f"{wanted}. Install one: apt-get install chromium-headless-shell (Debian and Ubuntu: chromium),"
        " or set browser.path to the program of another one"
    )


@asynccontextmanager
async def open_chromium(options: BrowserSettings) -> AsyncIterator[Chromium]:
    """Start a browser, and end it with all its processes when the block is left.

    Raise `Misconfigured` if it cannot be isolated as `options` say, or does not start.
    """
    program = find_program(options.path)
    uid, gid = (UNPRIVILEGED, UNPRIVILEGED) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    profile = Path(tempfile.mkdtemp(prefix="shoal-browser-"))
    to_browser, from_browser, handover = os.pipe(), os.pipe(), socket.socketpair()
    errors, words = os.pipe(), LastWords()
    theirs = [to_browser[0], from_browser[1], handover[1].fileno()]
    try:
        if os.geteuid() == 0:
            os.chown(profile, uid, gid)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(LAUNCHER), str(uid), str(gid), *map(str, theirs),
            options.network,
            *command_line(program, profile, sandbox=options.sandbox == "on"),
            pass_fds=theirs,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=errors[1],
            env={"HOME": str(profile), "PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd=profile,
            start_new_session=True,
        )  # fmt: skip
    except BaseException:
        for descriptor in (*to_browser, *from_browser, *errors):
            os.close(descriptor)
        handover[0].close()
        handover[1].close()
        shutil.rmtree(profile, ignore_errors=True)
        raise
    os.close(to_browser[0])
    os.close(from_browser[1])
    os.close(errors[1])
    handover[1].close()
    listener: socket.socket | None = None
    reading, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: words, os.fdopen(errors[0], "rb", 0)
    )
    try:
        async with CdpConnection.open(from_browser[0], to_browser[1]) as connection:
            listener = await _handed_over(handover[0])
            version = await _started(connection, program, words)
            port = PROXY_PORT if listener is not None else 0
            yield Chromium(connection, process.pid, listener, port, version)
    finally:
        handover[0].close()
        reading.close()
        if listener is not None:
            listener.close()
        await _end(process)
        shutil.rmtree(profile, ignore_errors=True)  # there only if its launcher was killed


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a launcher, which ends the browser with all its processes first."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def command_line(program: str, profile: Path, *, sandbox: bool) -> Sequence[str]:
    """Return the program with its flags."""
    whole = "headless" not in Path(program).name  # the shell is headless by itself
    return [
        program,
        *(["--headless=new"] if whole else []),
        *FLAGS,
        f"--user-data-dir={profile}",
        *([] if sandbox else ["--no-sandbox"]),
    ]


async def _handed_over(worker: socket.socket) -> socket.socket | None:
    """Return the socket that listens in the browser's network; None: it shares ours."""
    worker.setblocking(False)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(worker, ready.set)
    try:
        async with asyncio.timeout(START_S):
            await ready.wait()
    finally:
        loop.remove_reader(worker)
    text, descriptors, _, _ = socket.recv_fds(worker, 1024, 1)
    if descriptors:
        return socket.socket(fileno=descriptors[0])
    if text == b"shared":
        return None
    raise Misconfigured(
        f"the browser cannot be given a private network ({text.decode(errors='replace') or 'no answer'})."
        " Allow user namespaces (kernel.unprivileged_userns_clone, the container's seccomp profile),"
        ' or accept the flags alone: browser.network = "shared"'
    )


async def _started(connection: CdpConnection, program: str, words: "LastWords") -> str:
    try:
        answer = await connection.browser.call("Browser.getVersion", timeout_s=START_S)
    except (BrowserGone, TimeoutError) as error:
        how = (
            f"does not answer within {START_S:.0f} s" if isinstance(error, TimeoutError) else "does not start"
        )
        if isinstance(error, BrowserGone):
            with suppress(TimeoutError):
                async with asyncio.timeout(WORDS_S):
                    await words.ended.wait()
        raise Misconfigured(f"{program} {how}. {explain_words(words.text)}") from None
    return str(answer.get("product", ""))


class LastWords(asyncio.Protocol):
    """What a browser and its launcher wrote last to their standard error."""

    def __init__(self) -> None:
        self._written = b""
        self.ended = asyncio.Event()

    @property
    def text(self) -> str:
        return self._written.decode(errors="replace")

    def data_received(self, data: bytes) -> None:
        self._written = (self._written + data)[-MAX_WORDS:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


# Causes that can be told from the words of the browser or of the system, and what to do about each.
_CAUSES = (
    (
        re.compile(r"No usable sandbox|unprivileged user namespaces|Failed to move to new namespace", re.I),
        "Its sandbox needs user namespaces: allow them (kernel.unprivileged_userns_clone, the container's"
        ' seccomp profile), or accept the risk with browser.sandbox = "off"',
    ),
    (
        re.compile(r"error while loading shared libraries: (?P<name>[\w.+-]+)"),
        "The library {name} is missing: install the package of the system that has it",
    ),
    (
        re.compile(r"PermissionError.*Permission denied"),
        "The user that it runs as (without rights, if this process is root) may not execute it",
    ),
    (re.compile(r"No space left on device"), "The disk is full, or the folder for temporary files is"),
)


def explain_words(text: str) -> str:
    """Return the last words of a browser that did not start, with what to do if the cause is known."""
    lines = [printable(line.strip()[:WORDS_CHARS]) for line in text.splitlines()]
    said = [line for line in lines if line][-WORDS_LINES:]
    if not said:
        return "It said nothing"
    advice = ""
    for cause, what in _CAUSES:
        if found := cause.search(text):
            advice = what.format(**found.groupdict()) + ". "
            break
    return f"{advice}It said: {' | '.join(said)}"
