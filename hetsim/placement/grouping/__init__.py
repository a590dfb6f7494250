"""From an assignment to groups, by the clock."""
