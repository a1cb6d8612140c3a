"""Stores: what belongs to a technology that keeps things. Connecting, migrating, owning, translating its
errors.

`folder` is the embedded store, a directory with one owner; `sqlite` is the database in it. `redis` is a
fleet's store, on one server or many. What is kept there is the business of the stations.
"""
