"""Statistics of one long run: confidence intervals and verdicts."""
