"""Gives every namespace what pods in it rely on (an account, the server's CA certificate), and Secrets their tokens."""
