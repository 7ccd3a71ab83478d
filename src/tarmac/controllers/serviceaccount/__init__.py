"""Gives every namespace what pods in it rely on: a `default` ServiceAccount and the server's CA certificate."""
