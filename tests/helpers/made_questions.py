"""Small questions that are drawn, as a certificate has them: what can be had, what comes, ways."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

Json = dict[str, Any]

CARD, HOST, BOARD = "card", "host", "board"


class Made:
    """A question that is drawn, with every way to serve a batch."""

    def __init__(self, seed: int, *, sampled: bool = False, split: bool = False) -> None:
        self.rng = rng = np.random.default_rng([seed, 16])
        self.sampled, self.split = sampled, split
        models = int(rng.integers(1, 3))
        self.speed = [0.5, float(rng.uniform(0.8, 1.5)), float(rng.uniform(2.0, 4.0))]
        self.streams_of = [int(rng.integers(1, 3)), 1, int(rng.integers(1, 3))]
        types = [[0], [1], [2], [0, 1]]
        self.places = [HOST, CARD, CARD, BOARD]
        most = [1, int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 3))]
        self.kinds: list[Json] = []
        for at, devices in enumerate(types):
            usd = Decimal(int(rng.integers(5, 200))) / 100
            price: Json = {"usd_per_hour": str(usd)}
            exact = Fraction(usd)
            if at == 3:
                price = {"usd": "900", "years": "3", "power_w": "40", "usd_per_kwh": "0.31"}
                exact = Fraction(900, 3 * 8766) + Fraction(40 * 31, 100_000)
            self.kinds.append({
                "name": f"kind{at}",
                "devices": devices,
                "links": int(self.places[at] == CARD),
                "counts": int(at > 0),
                "most": most[at],
                "price": price,
                "cost": round(exact * 10**9),
            })  # fmt: skip
        self.classes = [(m, v) for m in range(models) for v in range(int(rng.integers(1, 3)))]
        self.sizes = [1, 2]
        self.policies: list[Json] = [
            {"name": "alone", "routing": "least_finish", "max_batch": 1, "delay_s": 0.0},
            {"name": "pairs", "routing": "shortest_queue", "max_batch": 2, "delay_s": 0.001},
        ]
        for policy in self.policies:
            policy |= {
                "placement": "pipeline" if split else "all", "limit": 1, "preferred": [],
                "max_queue_size": None, "timeout_s": None, "timeout_action": "reject",
            }  # fmt: skip
        work = rng.uniform(0.01, 0.03, len(self.classes))
        # Of plans over two devices each does a half.
        self.seconds = {
            (q, c, b): float(work[c] / self.speed[q] * (0.5 + 0.5 * b) / (1 + split))
            for q in range(3)
            for c in range(len(self.classes))
            for b in self.sizes
            # The second type of device knows no second variant.
            if not (q == 1 and self.classes[c][1] == 1 and not split)
        }
        self.move_s = 0.0005
        self.streams: list[Json] = [
            {"name": f"stream{m}", "model": m, "level": 0,
             "slos": [[0.9, float(rng.uniform(0.05, 0.12))]]}
            for m in range(models)
        ]  # fmt: skip
        self.asks = [(m, c) for c, (m, _) in enumerate(self.classes)]
        self.rates = rng.uniform(20.0, 90.0, len(self.asks)).tolist()
        count = 4000 if sampled else int(rng.integers(60, 160))
        self.time = np.cumsum(rng.exponential(1 / sum(self.rates), count))
        self.ask = rng.choice(
            len(self.asks), count, p=np.array(self.rates) / sum(self.rates)
        ).astype(np.uint16)
        self.ways: list[Json] = []
        self.templates: list[Json] = []
        self.number: dict[Any, int] = {}
        self.list_ways()

    def list_ways(self) -> None:
        """Every device alone, or every two that may stand one after another."""
        slots = [(k, p) for k, kind in enumerate(self.kinds) for p in range(len(kind["devices"]))]
        sets: list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = []
        sets += [((k,), ((0, p),)) for k, p in slots if not self.split]
        if self.split:
            sets += [((k, j), ((0, p), (1, r))) for k, p in slots for j, r in slots if k <= j]
            sets.append(((3,), ((0, 0), (0, 1))))
        for (kinds, devices), of, batch in itertools.product(
            sets, range(len(self.classes)), self.sizes
        ):
            types = [self.kinds[kinds[unit]]["devices"][place] for unit, place in devices]
            if all((q, of, batch) in self.seconds for q in types):
                self.template(kinds, devices, types, of, batch)

    def template(
        self,
        kinds: tuple[int, ...],
        devices: tuple[tuple[int, int], ...],
        types: list[int],
        of: int,
        batch: int,
    ) -> None:
        """Devices one after another; in front of each that is a card a transfer to it."""
        groups: list[list[Any]] = []
        moves: list[list[Any]] = []
        cards = [unit for unit, kind in enumerate(kinds) if self.places[kind] == CARD]
        for slot, q in enumerate(types):
            before = [slot - 1] if slot else []
            if devices[slot][0] in cards:
                moves.append([-1, self.move_s * batch, [cards.index(devices[slot][0])], before])
                before = [len(devices) + len(moves) - 1]
            groups.append([slot, self.seconds[q, of, batch], [], before])
        self.number[kinds, devices, of, batch] = len(self.templates)
        self.templates.append({"way": len(self.ways), "tasks": groups + moves})
        self.ways.append({
            "class": of, "batch": batch, "alone_s": sum(row[1] for row in groups),
            "strategy": "chain", "kinds": list(kinds),
            "devices": [[*one, row[1]] for one, row in zip(devices, groups, strict=True)],
            "links": [self.move_s * batch] * len(cards),
        })  # fmt: skip

    def types_of(self, way: Json) -> list[int]:
        """The types of the devices of a way."""
        return [self.kinds[way["kinds"][unit]]["devices"][p] for unit, p, _ in way["devices"]]

    def devices_of(self, counts: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """Kind, copy and place in it of each device."""
        return [
            (k, copy, place)
            for k, count in enumerate(counts)
            for copy in range(count)
            for place in range(len(self.kinds[k]["devices"]))
        ]

    def where(self, counts: tuple[int, ...], instance: Json) -> tuple[list[int], list[int]]:
        """Devices and links of an instance on a vector, by number."""
        way = self.ways[self.templates[instance["templates"][0][0]]["way"]]
        units = list(zip(way["kinds"], instance["copies"], strict=True))
        every = self.devices_of(counts)
        links = [
            (k, copy, link)
            for k, count in enumerate(counts)
            for copy in range(count)
            for link in range(self.kinds[k]["links"])
        ]
        devices = [every.index((*units[unit], place)) for unit, place, _ in way["devices"]]
        return devices, [at for unit in units for at, one in enumerate(links) if one[:2] == unit]

    def asks_of(self, stream: int) -> list[int]:
        """The asks of a stream."""
        return [ask for ask, (own, _) in enumerate(self.asks) if own == stream]

    def vectors(self) -> list[tuple[int, ...]]:
        """In order."""
        each = itertools.product(*(range(kind["most"] + 1) for kind in self.kinds))
        allowed = [one for one in each if self.fits(one)]
        return sorted(allowed, key=lambda one: (self.cost(one), sum(one[1:]), one))

    def fits(self, counts: tuple[int, ...]) -> bool:
        """At most five devices; a host where there are cards, with three slots."""
        slots = counts[1] + counts[2] - 3 * counts[0]
        return sum(counts[1:]) <= 5 and slots <= 0

    def cost(self, counts: tuple[int, ...]) -> int:
        """In billionths of a dollar an hour."""
        return sum(kind["cost"] * n for kind, n in zip(self.kinds, counts, strict=True))
