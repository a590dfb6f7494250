"""Cheapest platform that meets every objective of a workload, with proofs that exclude others."""
