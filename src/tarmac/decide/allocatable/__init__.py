"""How much of a node pods may have, and where every number comes from. Pure.

reservations  what is held back, as somebody wrote it; thresholds: of eviction
ledger        every number of a node from capacity, reservations and pods (accounts: what goes in and comes out)
nodestatus    the ledger in a Node's status, and back
podentries    a pod as the ledger counts it
weights       processors as weight
"""
