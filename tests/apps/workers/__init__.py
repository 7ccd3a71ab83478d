"""`tarmac server --processes N`: real processes on a real etcd, with a node in the test's own."""
