"""Fetch: from a lease to an answer, or to a failure with a name.

    lease ─▶ robots ─▶ connection ─▶ send gate ─▶ request ─▶ limits, decoding ─▶ interpretation ─▶ attempt

What this station promises the others:

- What the web does is data. A fetch ends in a `Response` within every limit, or in a `Failure` whose class
  has a row of policy; it raises for nothing a server can do. Cancelling a fetch closes its connection.
- Every socket is opened to an address that the guard has checked (`guard.py`).
- No request leaves sooner than its host's interval allows, measured where it leaves (`gate.py`).
- Nothing is read that no limit counts: header bytes and lines, framing, body, decoded body, and the bytes
  of all bodies on their way together.
- Redirects are not followed here. Their targets go back to the frontier as requests that carry the chain.
  Only robots.txt is followed in place, under the same guard, gate and limits.
"""
