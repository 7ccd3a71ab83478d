"""Public addresses of Services and Workloads: binding, release, their state, and the endpoints of Workloads."""
