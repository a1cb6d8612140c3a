"""`shoal serve`: the HTTP API, and the pages of the dashboard.

    access  every check before a handler runs: Host, Origin, token, role, rate
    http    routes as data, the ASGI application (check, decode, handle, encode), limits on connections
    state   what handlers share, and the snapshots that clients follow
    routes  the handlers by topic, and the table of all routes
    serve   puts them together and listens

A handler is thin: it gets decoded values, calls one service, and returns a value that is encoded. Nothing is
answered without a token but /healthz, /readyz and the static files of the dashboard, which hold no data.
"""
