"""Tarmac's promises as scenarios ("stories"), which run in three settings.

A story is a coroutine over a `World`: a user applies, edits and deletes, cities and nodes come and go, and the API must
report the truth. Each runs on a planet in one process in virtual time (`test_in_process`), against our own server over
HTTP with `tarmac controllers` beside it (`test_over_http`), and against a real kube-apiserver with the CRDs of `tarmac
crds` (`test_on_kubernetes`). No story depends on its setting.
"""
