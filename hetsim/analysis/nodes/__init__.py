"""Which unit runs each node, which others could, why not, and what that costs."""
