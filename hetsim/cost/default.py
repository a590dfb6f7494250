"""The cost model that prices where nobody names one."""

DEFAULT_COST = "fitted"
