"""The node's side of networks: compiles API objects into the datapath's desired state, and attaches pods on request."""
