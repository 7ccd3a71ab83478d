"""The amounts of a node that pods may request, and the source of every number. Pure.

reservations  reserved amounts as configured; thresholds: of eviction
ledger        every number of a node from capacity, reservations and pods (accounts: its input and output types)
nodestatus    converts the ledger to and from a Node's status
podentries    a pod as the ledger counts it
weights       CPU amounts as weights
"""
