"""Changing a store from outside the crawls that run on it.

    pause         pause and resume crawls
    hosts         show hosts, set their pace, pause them
    levels        show and set how the pages of a host are fetched
    dead_letters  choose and read dead letters, replay or purge them
    release       queue what a crawl holds back
    accept        take data over that was out of the range of earlier generations
    delete        remove a crawl from its store

Where a running crawl owns the store, that process carries out pauses, releases and changes of hosts;
replaying, purging and deleting are refused until it ends. A shared store is changed directly, and its workers
look for new work.
"""
