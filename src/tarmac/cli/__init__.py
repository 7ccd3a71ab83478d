"""The `tarmac` command: argument parsing and output; the work is done by `apps` and the client."""
