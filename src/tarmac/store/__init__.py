"""A revisioned key-value log with watch history: one interface, three drivers (memory, sqlite, etcd), one conformance suite."""
