"""The objects that the pods of this node refer to, and nothing else of the API."""
