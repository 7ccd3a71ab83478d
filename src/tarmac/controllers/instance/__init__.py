"""Instance → Pod and claims, and the Pod's state back into the Instance."""
