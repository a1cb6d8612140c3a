"""Where the stations meet: crawls from seeds to sinks, and whatever looks at them or steers them.

    crawl     one crawl, running: the same for a process that owns its store and for a worker of a fleet
    fleet     what only a fleet needs: submitting, workers, and a whole fleet on one machine
    looking   what only looks: the state of a store, the story of a URL, the proof that nothing was lost
    steering  what changes a store from outside: pauses, the pace of hosts, dead letters
    gathered  what is done with the pages and items of a crawl: parsing them again, exporting them
    doctor    whether this machine and this store are fit for a crawl

The modules beside them are what several of these share. `plan` says what to crawl. `wiring` joins the
stations for a process that owns its store (`embedded`), `fleet.joining` does it for one worker; `fetching`,
`pages` and `outlet` are parts of both. `reaching` and `outside` are the ways into a store that others may be
at work on, and `private_store` the server of a fleet on one machine, which is a `companion` of whoever looks
at it. `submitted` is what workers find in a store; `snapshot`, `sums`, `lag` and `versions` are what a crawl
tells of itself.
"""
