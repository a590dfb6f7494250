"""Clock and statistic told again, for tests."""
