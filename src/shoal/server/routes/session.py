"""Sessions of the dashboard: a cookie in exchange for a token."""

import time

import msgspec

from shoal.model.api.crawls import Nothing
from shoal.model.api.roles import Role
from shoal.server.access.gate import COOKIE, SESSION_S, Caller
from shoal.server.http.answers import TypedAnswer
from shoal.server.state.context import ApiServer


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    token: str  # its name
    role: Role
    csrf: str | None  # to send in X-Shoal-CSRF; None: the request carried a token
    expires_at: float | None = None


async def begin_session(server: ApiServer, params: Nothing, caller: Caller) -> TypedAnswer[SessionInfo]:
    """Begin a session: the answer sets a cookie that stands for the token that was sent."""
    key, session = server.gate.sessions.create(caller.digest, time.time())
    state = SessionInfo(
        token=caller.holder.name, role=caller.holder.role, csrf=session.csrf, expires_at=session.expires_at
    )
    return TypedAnswer(state, (_cookie(key, SESSION_S, caller),))


async def show_session(server: ApiServer, params: Nothing, caller: Caller) -> SessionInfo:
    """Show the name and role of the token, and the CSRF token of the session."""
    session = caller.session
    return SessionInfo(
        token=caller.holder.name,
        role=caller.holder.role,
        csrf=None if session is None else session.csrf,
        expires_at=None if session is None else session.expires_at,
    )


async def end_session(server: ApiServer, params: Nothing, caller: Caller) -> TypedAnswer[SessionInfo]:
    """End the session and delete its cookie."""
    if caller.session_key:
        server.gate.sessions.end(caller.session_key)
    state = SessionInfo(token=caller.holder.name, role=caller.holder.role, csrf=None)
    return TypedAnswer(state, (_cookie("", 0.0, caller),))


def _cookie(key: str, seconds: float, caller: Caller) -> tuple[bytes, bytes]:
    secure = "; Secure" if caller.over_tls else ""
    text = f"{COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds:.0f}{secure}"
    return b"set-cookie", text.encode()
