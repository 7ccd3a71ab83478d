"""The registry beside `tarmac up`: Debian's, told whom to trust, kept running, and known to every city's containerd."""
