"""External services on a Linux node.

One egress namespace, and a link to it from the router namespace of each Network with pods that use servers outside.
docs/explanation/external-services.md describes the path of a packet.
"""
