"""How everything but the server sees the world: transports, typed access, informers, work queues, leader election."""
