"""The pod loop: one worker per pod makes the runtime match the pods of the API and of manifests."""
