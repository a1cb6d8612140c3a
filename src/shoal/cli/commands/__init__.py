"""One module per command, by what it does.

run        start crawls, workers, servers and projects
inspect    read a store, a page or this machine
control    change a store: dead letters, hosts, exits, pauses, schedules, tokens
reprocess  use archived pages and items again
"""
