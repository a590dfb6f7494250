"""How sure is a figure of one long run, and is the run long enough to answer?"""
