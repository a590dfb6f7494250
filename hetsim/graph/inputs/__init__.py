"""Inputs of a model: from files, random, and checked."""
