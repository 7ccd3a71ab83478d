"""What Tarmac promises, told once and played in three settings.

A story is a coroutine over a `World`: somebody applies, edits and deletes, cities and nodes come and go, and the API
must say what is true. Each is played on a planet in one process in virtual time (`test_in_process`), against our own
server over HTTP with `tarmac controllers` beside it (`test_over_http`), and against a real kube-apiserver with the CRDs
of `tarmac crds` (`test_on_kubernetes`). No story knows in which it is.
"""
