"""The node's part in external services: applies Forwarders and Gateways to the datapath and owns SourceIPs."""
