"""How far are predictions from what was measured? Point by point, kept, guarded and told."""
