"""The providers that come with Tarmac, run as programs."""
