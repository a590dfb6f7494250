"""Many questions at once: the cross product of models, platforms, strategies and what comes."""
