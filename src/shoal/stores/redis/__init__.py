"""The fleet: what its workers share besides the frontier.

    crawls     what was submitted: spider, settings, seeds and outputs, by name
    allowance  how many pages a crawl may still get, shared out among the workers that fetch them
    workers    who is there and what they are doing; a worker that is silent for `TTL` seconds is gone

Crawls and workers lie under one tag of the store, in values that new fields can join: old and new workers
run side by side.
"""
