"""Reconciles each Instance: its Pod and claims, and the Pod's state back into its status."""
