"""Groups grown and contracted without closing a cycle: what merge methods share."""
