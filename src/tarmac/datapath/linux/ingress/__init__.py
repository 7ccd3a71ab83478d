"""Public addresses of a Linux node: its ingress namespace, and the links of Networks to it."""
