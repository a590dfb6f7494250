"""List scheduling: ranks, gaps on streams, room for weights."""
