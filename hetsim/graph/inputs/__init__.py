"""Inputs of a model: from files, by chance, and whether they fit."""
