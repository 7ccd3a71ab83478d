"""Links between the processes of one server, without the processes."""
