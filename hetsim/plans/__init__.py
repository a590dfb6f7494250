"""The answer and the evidence: plans, how they are read back, and what happened when."""
