"""Evaluates NetworkPolicies and Services, for agents that program the datapath and for reachability questions."""
