"""Setup of a cluster's hosts: init, join and leave. Each step checks the existing state."""
