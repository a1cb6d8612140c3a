"""Pages in a real browser: Chromium without rights, in a private network, driven over a pipe.

`chromium` starts it, `cdp` speaks to it, `render` loads one page within limits, `client` joins that to the
egress and implements `fetch.contract.Client`.
"""
