"""Guests: processes that run a crawl in a folder that another process owns.

Only the owner of a folder writes to its database. A guest runs another crawl, with its own spider, outputs,
archive, clients and screen, and asks the owner for what the owner alone can do: to grant leases and
turns of hosts, and to commit. What it reads, it reads from the database itself.

    messages    the calls, as checked data, and how they are framed
    server      the owner's side: carries out the calls of each guest
    connection  the guest's side of the socket
    frontier    a frontier whose changes are calls to the owner

One pace per host: the frontier of the owner paces the leases of all crawls, and its send gate all requests.

Recovery. A guest that is gone, however it ended, leaves a closed connection: the owner unloads its crawl as
the next start of a process would find it (`SqliteCrawls.close`). An owner that is gone leaves its guests a
closed connection: each of them closes its session and opens the folder again, as an owner or as the guest of
the next one, and resumes its crawl from the database. An owner that ends in an orderly way asks its guests to
leave first, so that they settle what they hold.
"""
