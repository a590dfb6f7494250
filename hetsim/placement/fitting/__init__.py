"""Plans that fit the memory of their devices, or the proof that there is none."""
