"""Tests of the composition roots."""
