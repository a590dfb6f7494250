"""What a page's sliders compute with: the command line's own numbers, and its commands."""
