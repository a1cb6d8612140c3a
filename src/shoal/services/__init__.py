"""What commands, a dashboard or another program calls.

crawl        run a crawl here, on the store that its settings name
submit       put a crawl into a store that workers share
worker       serve the crawls of such a store
local_fleet  a store, several workers and one crawl, all on this machine
inspect      read: the state of a store, the history of a URL, the proof that nothing was lost
control      change a store from outside: pauses, the pace of hosts, dead letters, deleting a crawl
reprocess    parse the archived pages of a crawl again, export items, compare
doctor       check whether this machine and this store are ready for a crawl
"""
