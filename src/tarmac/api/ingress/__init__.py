"""networking.datumapis.com: AddressPool, PublicAddress, BGPPeer, the kinds for connections from outside."""
