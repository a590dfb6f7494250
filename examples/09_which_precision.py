"""Two models on a small board in three precisions, alone and at 300 requests a second."""

from tempfile import TemporaryDirectory

import hetsim

grid = hetsim.load_grid("grid.yaml")
with TemporaryDirectory() as folder:
    # executor="ray" answers the points on all cores, with address=... on those of a cluster.
    found = hetsim.sweep(grid, folder, executor="threads")
    again = hetsim.sweep(grid, folder, executor="threads")
    print(f"{found.answered} points answered; asked again, {again.answered} are")

for row in found.rows:
    asked = f"{row['model']:17} {row['execute'] or 'as it is':12}"
    if row["workload"] is None:
        print(f"{asked} {1e3 * row['latency_s']:.2f} ms, {1e3 * row['energy_j']:.0f} mJ a request")
    elif row["p99_s"] is None:
        print(f"{asked} {row['workload']}: {row['state']}")
    else:
        print(
            f"{asked} {row['workload']}: p99 {1e3 * row['p99_s']:.2f} ms, "
            f"{row['energy_per_1000_j']:.0f} J for 1000 on time"
        )
