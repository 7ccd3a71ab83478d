"""Classes of shared resources: how many places of a class pods take."""
