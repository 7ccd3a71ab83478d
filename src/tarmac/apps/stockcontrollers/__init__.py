"""Runs stock kube-controller-manager beside a server, for the kinds whose controllers Tarmac does not have."""
