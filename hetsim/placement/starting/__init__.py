"""Plans that searches start from."""
