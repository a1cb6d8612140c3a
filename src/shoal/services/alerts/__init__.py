"""Alerts: evaluated by Shoal itself, in a folder by the running process, in a fleet by one worker at a time.

observation   what is known of a store at one instant, and the figures that each worker publishes
window        the observations of the last minutes
stalls        pure: what keeps a stage from progressing
conditions    pure: which conditions hold, over a window of observations, with cause and action in words
evaluate      pure: conditions become alerts when they have held for a while, and are cleared when over
gather        reads one observation from a store, without a scan
watch         the loop: publish, claim, gather, evaluate, store, log, notify, act
webhooks      sends raised and cleared alerts
worker        the loop beside a worker
scheduler     the loop beside a scheduler
read          the current alerts of a store, for commands and pages
"""
