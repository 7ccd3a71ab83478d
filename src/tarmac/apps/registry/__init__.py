"""The registry of `tarmac up`: Debian's docker-registry, configured, supervised, and known to every containerd."""
