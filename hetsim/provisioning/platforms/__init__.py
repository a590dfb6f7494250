"""The cheapest platform that meets every objective of a workload, with what excludes the rest."""
