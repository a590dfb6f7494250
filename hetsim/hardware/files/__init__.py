"""Files that describe hardware: what they may say, and what is wrong with them."""
