"""The client side of the API: transports, typed access, informers, work queues, leader election."""
