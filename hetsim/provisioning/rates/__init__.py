"""How much does a platform carry? Rates that meet what is asked, each with its proof."""
