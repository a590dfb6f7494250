"""What Python's ``Random`` draws, in the subset of Python that numba compiles."""

from __future__ import annotations

from hetsim.placement.search.records import Array


def draw_32(twister: Array) -> int:
    """Return 32 bits drawn, of M. Matsumoto, T. Nishimura, ACM TOMACS 8(1), 1998."""
    at = twister[624]
    if at >= 624:
        for k in range(624):
            y = (twister[k] & 0x80000000) | (twister[(k + 1) % 624] & 0x7FFFFFFF)
            mixed = twister[(k + 397) % 624] ^ (y >> 1)
            if y & 1:
                mixed ^= 0x9908B0DF
            twister[k] = mixed
        at = 0
    y = twister[at]
    twister[624] = at + 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    y ^= y >> 18
    return int(y)


def draw_share(twister: Array) -> float:
    """Return a number from 0 to 1, as Python's ``random`` does."""
    high = draw_32(twister) >> 5
    low = draw_32(twister) >> 6
    return (high * 67108864.0 + low) / 9007199254740992.0


def next_share(twister: Array) -> float:
    """Return what ``draw_share`` will, or 0 where it mixes anew first; nothing is drawn."""
    at = twister[624]
    if at > 622:
        return 0.0
    high = draw_32(twister) >> 5
    low = draw_32(twister) >> 6
    twister[624] = at
    return (high * 67108864.0 + low) / 9007199254740992.0


def draw_below(twister: Array, count: int) -> int:
    """Return a whole number below `count`, as Python's ``randrange`` does."""
    bits = 0
    while count >> bits:
        bits += 1
    found = count
    while found >= count:
        found = draw_32(twister) >> (32 - bits)
    return found
