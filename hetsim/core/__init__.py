"""What every other package may use: argument checks, texts, units, files, machine code."""
