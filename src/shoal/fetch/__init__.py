"""Fetch: make one attempt at a lease and return a response, or a failure with a class.

    lease ─▶ robots ─▶ connection ─▶ send gate ─▶ request ─▶ limits, decoding ─▶ interpretation ─▶ attempt

Guarantees to the other packages:

- What a server does is data. A fetch ends in a `Response` within all limits, or in a `Failure`; it never
  raises for what a server does. Cancelling a fetch closes its connection.
- Every socket is opened to an address that the guard has checked (`http/guard.py`).
- No request is sent sooner than its host's interval allows, measured at the moment of sending (`gate.py`).
- Every byte that is read counts towards a limit: header bytes and lines, framing, body, decoded body, and the
  bytes of all bodies being received together.
- Redirects are not followed. Their targets go back to the frontier as requests with the chain of redirects.
  Only robots.txt redirects are followed at once, under the same guard, gate and limits.

Three clients fit one contract (`contract.py`), one for each level of fetching:

    http/         Shoal's own client: DNS, guard, connections, limits, decoding. Imports nothing beside it
    impersonate/  a client with the TLS and HTTP/2 fingerprint of a browser
    browser/      Chromium, for pages that need scripts
    egress/       a loopback proxy that the last two go through: guard, exit and byte counts for them as well

`levels` chooses the client of a request, and `escalation/` learns which level a part of a site needs.
`exits/` chooses the proxy that a request leaves through, with its health and its cost. `challenge`,
`block_signs` and `empty_shell` recognise blocks and pages without content.
"""
