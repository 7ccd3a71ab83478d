"""submariner.io: ExternalService, Forwarder, Gateway, SourceIP, SourceIPClaim, SourceIPClass."""
