"""List scheduling: ranks, insertion into gaps of streams, room for weights."""
