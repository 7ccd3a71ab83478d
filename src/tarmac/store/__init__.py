"""A revisioned key-value log with watch history: one interface, three drivers, one conformance suite.

`interface` is the contract, `state` the visible state in memory that all drivers share, `local` what the drivers with
a log of their own (`memory`, `sqlite`) share, `etcd` the driver whose log other servers write too. `open_store` picks
one by URL.
"""
