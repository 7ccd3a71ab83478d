"""The registry beside `tarmac up`: rights to push and pull, and the life of pushed images."""
