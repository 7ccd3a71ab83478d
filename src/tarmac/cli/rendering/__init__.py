"""Answers as text for people: pure functions from what was answered to what is printed, made to fit 100 columns."""
