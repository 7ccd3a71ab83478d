"""The cluster's own keys: their records in the store, their rotation, encryption at rest, backups and hand-over."""
