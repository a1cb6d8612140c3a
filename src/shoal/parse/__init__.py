"""Parse: run the spider on pages, in sandboxed child processes.

    pool                 in the parent: sends pages to children and receives results
    fork_server_client   in the parent: starts the fork server and talks to it
    zygote               the fork server: loads the spider once and forks children within milliseconds
    child                runs the spider on one page after another
    sandbox/             what the fork server and its children may not do; which guarantees hold

What the pool guarantees. Every submitted page is answered once: with the spider's result or fault, or as
`Poisoned` if the page (not the spider as a whole) crashed children. A child that dies, hangs, runs out of
memory, exceeds its output or sends invalid data costs exactly one page a strike: the one it was working on.
That is the first page it has not answered, because a child answers each page before it starts the next. The
pages queued behind it go to other children without a strike. A page with a strike is retried alone in a fresh
child. It is poisoned after `ParseLimits.crashes` strikes, or at once if a retry cannot help.

What it does not guarantee. Answers come in any order. Pages that are unanswered when the pool closes stay
unanswered: they are in the store, and the next run submits them again. A handler that damages its own process
later (a timer, a global that grows) can cost another page a strike, but not its answer.

No user code runs in the parent, not even its import. When the parent dies, in whatever way, the fork server
and all children die with it.
"""
