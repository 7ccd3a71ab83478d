"""The dashboard: serves the page for the browser.

Its TypeScript is in `dashboard/` at the root of the project; `tools/dashboard.py` builds it into `_generated`. The page
uses only the public API, with the rights of its user. It is served in two ways: `/dashboard/` of a server, where the
page asks for a token, and `tarmac dashboard`, which serves it on this host's loopback address and relays its requests.
"""
