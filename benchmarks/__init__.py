"""Benchmarks of the paths whose speed is promised. `make bench` runs them all; each prints its figure beside its budget."""
