"""Kinds of `flowcontrol.apiserver.k8s.io`. Tarmac stores them; its own fairness is by user and reads none of them."""
