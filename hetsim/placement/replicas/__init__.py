"""Several copies of a model: which plans for which devices."""
