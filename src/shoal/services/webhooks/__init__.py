"""Webhooks: a crawl has finished, an alert was raised or cleared, items were written.

    rules     which events a change of the store means, when a delivery is tried again, signatures: pure
    records   webhooks, their positions and their deliveries, in the store
    deliver   the loop: detect events, store them as deliveries, send what is due

A delivery is stored before the position that it came from moves on, under an id that follows from the event.
So a process that is killed at any moment leaves the event behind, and the next one stores it only once. The
id is sent with every attempt: a receiver that has seen it answers 200 and does nothing.
"""
