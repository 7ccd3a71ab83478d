"""The dashboard: the page in the browser, as it is served.

Its TypeScript stands in `dashboard/` at the root of the project; `tools/dashboard.py` builds it into `_generated`. The
page uses nothing but the public API, under the rights of who looks at it. There are two ways to it: `/dashboard/` of a
server, where the page asks for a token, and `tarmac dashboard`, which serves it to this computer alone and passes its
requests on.
"""
