"""Controllers: one package each. Every controller observes, decides, acts and explains, only through the client."""
