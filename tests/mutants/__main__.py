"""Small mistakes in the core packages, and which of them no test notices.

``python -m mutants --package placement --seed 1 --count 25`` draws 25, puts each into a copy of the
repository, and runs the tests that may notice it, the nearest first. ``make mutants`` asks for it.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

from mutants.choosing import chosen_for
from mutants.drawing import drawn
from mutants.trying import PRINTED, Trial, copied, prepare, tried

ROOT = Path(__file__).parents[2]
CORE = {
    "partitioning": "partitioning",
    "placement": "placement",
    "plans": "plans",
    "problem": "problem",
    "clock": "simulation",
    "dispatch": "execution/dispatch",
    "analysis": "analysis",
    "cost": "cost",
}
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main() -> int:
    """Try what was drawn; 1 where something survived that is not explained."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--package", choices=(*CORE, "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=25, help="of each package")
    parser.add_argument("--share", default="1/1", help="3/7: the third of seven parts of them")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a processor, for one")
    asked = parser.parse_args()
    part, parts = (int(number) for number in asked.share.split("/"))
    why = {
        (entry["path"], entry["was"], entry["now"]): entry["why"]
        for entry in tomllib.loads(EQUIVALENT.read_text())["mutant"]
    }
    found: dict[str, list[Trial]] = {}
    sound: set[str] = set()
    unsound: set[str] = set()
    with copied(ROOT) as copy:
        prepare(copy)
        for package in CORE if asked.package == "all" else (asked.package,):
            files = sorted(copy.glob(f"hetsim/{CORE[package]}/**/*.py"))
            mine = found.setdefault(package, [])
            for number, mutant in enumerate(drawn(files, copy, asked.count, asked.seed)):
                if number % parts != part - 1:
                    continue
                tests = chosen_for(copy / mutant.path, copy)
                trial = tried(mutant, tests, copy, asked.seconds, unsound)
                while trial.test and trial.test not in sound:
                    # What fails without a mistake, too, has noticed nothing.
                    text = (copy / mutant.path).read_text()
                    of_pytest = trial.test.startswith("pytest ended")
                    # What cannot be imported ends it before the first test.
                    early = trial.test in ("pytest ended with 1", "pytest ended with 4")
                    again = tests[: 1 if early else None] if of_pytest else [trial.test]
                    without = tried(replace(mutant, text=text), again, copy, asked.seconds, unsound)
                    if without.verdict == "survived":
                        sound.update(() if of_pytest else (trial.test,))
                        break
                    if of_pytest:
                        said = (copy / PRINTED).read_text(errors="replace")[-3000:]
                        raise RuntimeError(f"without a mistake, too, {without.test}:\n{said}")
                    print(f"left out, fails without a mistake: {trial.test}")
                    unsound.add(trial.test)
                    trial = tried(mutant, tests, copy, asked.seconds, unsound)
                mine.append(trial)
                _tell(trial, why.get(mutant.key))
    print()
    left = 0
    for package, trials in found.items():
        verdicts = Counter(trial.verdict for trial in trials)
        survived = [trial for trial in trials if trial.verdict == "survived"]
        explained = sum(trial.mutant.key in why for trial in survived)
        left += len(survived) - explained
        print(
            f"{package:12} {len(trials):4} drawn, {verdicts['killed']} killed, "
            f"{verdicts['timed out']} timed out, {len(survived)} survived, {explained} of them "
            f"explained; {sum(trial.seconds for trial in trials):.0f} s"
        )
    return 1 if left else 0


def _tell(trial: Trial, why: str | None) -> None:
    mutant = trial.mutant
    print(f"{trial.verdict:9} {mutant.path}:{mutant.line} {mutant.operator} {trial.seconds:.0f} s")
    print(f"          - {mutant.was}\n          + {mutant.now}")
    if trial.test:
        print(f"          {trial.test}")
    if why is not None:
        print(f"          equivalent: {why}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
