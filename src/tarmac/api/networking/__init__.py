"""networking.datumapis.com: Location, Network, NetworkContext, NetworkBinding, NetworkPolicy, SubnetClaim, Subnet.

PodEndpoint is made by the server from Pods, and only read."""
