"""The question: a DAG, who can run what in how long, what moves where, and what must fit."""
