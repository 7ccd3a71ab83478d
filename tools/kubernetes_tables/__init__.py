"""Makes the server's tables of Kubernetes' own kinds out of Kubernetes' published schemas and Go types.

Nothing of Kubernetes' text is kept in this repository: the pinned Go modules carry it, and what is made here is ignored
by git and shipped inside built wheels.
"""
