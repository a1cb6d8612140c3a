"""Schedules: crawls that start by themselves.

    rules       which ticks are due, and what becomes of each: pure
    scheduler   the loop of a scheduler; any number may run on a store
    launch      start the crawl of a tick: a process for a folder, a submission for a fleet
    check       what would fail at the first tick is refused when a schedule is added
    remove      remove what the runs have left that are older than those to keep
    conditions  which schedules have failed or missed ticks, as alerts: pure
    manage      add, list, pause and remove schedules

Each tick is decided once: a scheduler claims it in the step that moves the cursor past it. The name of its
crawl comes from the tick, so that starting it twice is harmless; a scheduler that is killed in between leaves
a claim that expires, and another one starts the same crawl again.
"""
