"""The dashboard: access, data for the browser, and forwarded requests."""
