"""External services on a Linux node: one egress namespace, and a link to it from the router namespace of each Network
whose pods speak with servers outside. docs/explanation/external-services.md tells the way of a packet."""
