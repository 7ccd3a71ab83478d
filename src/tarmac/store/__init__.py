"""A revisioned key-value log with watch history: one interface, three drivers, one conformance suite.

`interface` is the contract and `state` the visible in-memory state of every driver. `local` is the base of the drivers
that own their log (`memory`, `sqlite`); `etcd` is the driver whose log other servers write too. `open_store` picks a
driver by URL.
"""
