"""Times of real kernels: profiles that runtimes write, read and matched to the nodes of a model."""
