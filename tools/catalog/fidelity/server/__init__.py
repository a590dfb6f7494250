"""What rate a system serves within a limit: MLPerf's Server results, predicted and judged."""
