"""Classes of shared resources: what a node offers, what pods take of it, and what a class comes to in the kernel."""
