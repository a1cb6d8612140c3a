"""The parse station: pages go in, what the spider made of them comes out; user code runs in children only.

    pool      the station itself, in the parent: hands pages to children, takes results back
    zygote    one process per pool that has loaded the spider and forks children from there in milliseconds
    child     runs the spider on page after page
    confine   what zygote and children may not do

What the pool promises. Every page that was submitted is answered once: with the spider's result or fault, or
as `Poisoned` when the page (not the spider as a whole) brought children down. A child that dies, hangs, runs
out of memory, floods its output or talks nonsense costs exactly the page it was working on a strike: that is
the first page it has not answered, because a child answers each page before it begins the next. The pages
queued behind it go to other children without blame. A page with a strike is tried again alone in a fresh
child, and given up after `ParseLimits.crashes` strikes; at once if trying again cannot help.

What it does not promise. Answers come in any order. What is unanswered when the pool closes stays so: the
pages are in the store, and the next run submits them again. A handler that hurts its own process later (a
timer, a global that fills up) can cost a neighbour a strike, but not its answer.

Nothing of user code runs in the parent, not even its import. When the parent dies, however it dies, zygote
and children die with it.
"""
