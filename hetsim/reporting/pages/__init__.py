"""Reports that people look at: one HTML file each, with all that it shows inside."""
