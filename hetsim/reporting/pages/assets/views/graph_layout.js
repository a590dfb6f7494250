/* A layered layout of a directed acyclic graph, after Sugiyama, Tagawa and Toda (1981): ranks by
 * longest path, crossings lowered by sweeps of barycentres, places in a rank by least squares that
 * keep the order (pool adjacent violators), and the ranks cut into columns side by side, as a newspaper's, so that a deep
 * network fills a wide window. The same graph gives the same layout.
 */
(() => {
  const LONGEST = 10; // edges over more ranks are drawn without bends, and bend nothing
  const SWEEPS = 8;
  const GAP_X = 18;
  const GAP_Y = 26;
  const COLUMN_GAP = 76;

  /* Rank by node: the longest path from a source; sources and what reads little of much stand
   * just above their first reader. */
  function ranksOf(count, from, to) {
    const { start, list } = adjacency(count, from, to);
    const back = adjacency(count, to, from);
    const left = new Int32Array(count);
    for (const v of to) left[v] += 1;
    const order = [];
    for (let v = 0; v < count; v += 1) if (left[v] === 0) order.push(v);
    const rank = new Int32Array(count);
    for (let i = 0; i < order.length; i += 1) {
      const u = order[i];
      for (let k = start[u]; k < start[u + 1]; k += 1) {
        const v = list[k];
        if (rank[v] < rank[u] + 1) rank[v] = rank[u] + 1;
        left[v] -= 1;
        if (left[v] === 0) order.push(v);
      }
    }
    if (order.length !== count) throw new Error("the graph to draw has a cycle");
    for (let i = count - 1; i >= 0; i -= 1) {
      const u = order[i];
      const outs = start[u + 1] - start[u];
      if (!outs || back.start[u + 1] - back.start[u] >= outs) continue;
      let least = Infinity;
      for (let k = start[u]; k < start[u + 1]; k += 1) least = Math.min(least, rank[list[k]]);
      rank[u] = Math.max(rank[u], least - 1);
    }
    return rank;
  }

  /* Compressed adjacency: the targets of u are list[start[u] .. start[u + 1]]. */
  function adjacency(count, from, to) {
    const start = new Int32Array(count + 1);
    for (const u of from) start[u + 1] += 1;
    for (let u = 0; u < count; u += 1) start[u + 1] += start[u];
    const next = start.slice(0, count);
    const list = new Int32Array(from.length);
    for (let e = 0; e < from.length; e += 1) {
      list[next[from[e]]] = to[e];
      next[from[e]] += 1;
    }
    return { start, list };
  }

  /* Every edge over several ranks, but for the longest, as a chain of bends. */
  function withBends(count, from, to, rank) {
    const ranks = Array.from(rank);
    const a = [];
    const b = [];
    const bends = new Array(from.length).fill(null);
    for (let e = 0; e < from.length; e += 1) {
      const span = rank[to[e]] - rank[from[e]];
      if (span > LONGEST) continue;
      let last = from[e];
      if (span > 1) bends[e] = [];
      for (let r = rank[from[e]] + 1; r < rank[to[e]]; r += 1) {
        bends[e].push(ranks.length);
        a.push(last);
        b.push(ranks.length);
        last = ranks.length;
        ranks.push(r);
      }
      a.push(last);
      b.push(to[e]);
    }
    return { ranks, a, b, bends };
  }

  /* Crossings of the edges between two ranks whose order is known: inversions, by merge counting. */
  function crossingsBelow(row, place, down) {
    const ends = [];
    for (const u of row) {
      const own = [];
      for (let k = down.start[u]; k < down.start[u + 1]; k += 1) own.push(place[down.list[k]]);
      own.sort((p, q) => p - q);
      for (const end of own) ends.push(end);
    }
    return inversions(ends);
  }

  function inversions(values) {
    const most = values.reduce((m, v) => Math.max(m, v), 0) + 2;
    const tree = new Int32Array(most + 1);
    let found = 0;
    for (let i = values.length - 1; i >= 0; i -= 1) {
      for (let k = values[i]; k > 0; k -= k & -k) found += tree[k];
      for (let k = values[i] + 1; k <= most; k += k & -k) tree[k] += 1;
    }
    return found;
  }

  function crossings(rows, place, down) {
    let sum = 0;
    for (const row of rows) sum += crossingsBelow(row, place, down);
    return sum;
  }

  /* Rows in an order with few crossings; ties keep the order that they have. */
  function ordered(rows, up, down, count) {
    const place = new Float64Array(count);
    const number = () => rows.forEach((row) => row.forEach((v, i) => (place[v] = i)));
    number();
    const first = crossings(rows, place, down);
    let best = first;
    let kept = rows.map((row) => row.slice());
    const key = new Float64Array(count);
    const sweep = (r, side) => {
      const row = rows[r];
      if (row.length < 2) return;
      for (const v of row) {
        let sum = 0;
        const degree = side.start[v + 1] - side.start[v];
        for (let k = side.start[v]; k < side.start[v + 1]; k += 1) sum += place[side.list[k]];
        key[v] = degree ? sum / degree : place[v];
      }
      row.sort((p, q) => key[p] - key[q] || place[p] - place[q]);
      row.forEach((v, i) => (place[v] = i));
    };
    for (let turn = 0; turn < SWEEPS && best > 0; turn += 1) {
      if (turn % 2 === 0) for (let r = 1; r < rows.length; r += 1) sweep(r, up);
      else for (let r = rows.length - 2; r >= 0; r -= 1) sweep(r, down);
      const now = crossings(rows, place, down);
      if (now < best) {
        best = now;
        kept = rows.map((row) => row.slice());
      } else if (turn > 3) break;
    }
    return { rows: kept, first, best };
  }

  /* Places nearest to `wished` that keep the order and `half` widths apart: pooled violators. */
  function spread(row, wished, half, x) {
    let at = 0;
    const offset = row.map((v, i) => {
      if (i) at += half[row[i - 1]] + half[v] + GAP_X;
      return at;
    });
    const mean = [];
    const size = [];
    row.forEach((v, i) => {
      mean.push(wished[i] - offset[i]);
      size.push(1);
      while (mean.length > 1 && mean[mean.length - 2] > mean[mean.length - 1]) {
        const m = mean.pop();
        const s = size.pop();
        const t = size[size.length - 1];
        mean[mean.length - 1] = (mean[mean.length - 1] * t + m * s) / (s + t);
        size[size.length - 1] = s + t;
      }
    });
    let i = 0;
    mean.forEach((m, block) => {
      for (let k = 0; k < size[block]; k += 1, i += 1) x[row[i]] = m + offset[i];
    });
  }

  function placed(rows, up, down, half, count) {
    const x = new Float64Array(count);
    for (const row of rows) spread(row, row.map(() => 0), half, x);
    for (const row of rows) {
      const middle = row.length ? (x[row[0]] + x[row[row.length - 1]]) / 2 : 0;
      for (const v of row) x[v] -= middle;
    }
    const pull = (row, sides) => {
      const wished = row.map((v) => {
        let sum = 0;
        let degree = 0;
        for (const side of sides) {
          for (let k = side.start[v]; k < side.start[v + 1]; k += 1) {
            sum += x[side.list[k]];
            degree += 1;
          }
        }
        return degree ? sum / degree : x[v];
      });
      spread(row, wished, half, x);
    };
    for (let turn = 0; turn < 3; turn += 1) {
      for (const row of rows) pull(row, [up]);
      for (let r = rows.length - 1; r >= 0; r -= 1) pull(rows[r], [down]);
    }
    for (const row of rows) pull(row, [up, down]);
    return x;
  }

  /* Where the ranks are cut into columns so that all of it is about `aspect` times as wide as
   * high; a cut goes where few edges cross it. */
  function columnsOf(rows, x, half, heights, crossed, aspect) {
    let total = 0;
    const low = new Float64Array(rows.length).fill(Infinity);
    const high = new Float64Array(rows.length).fill(-Infinity);
    rows.forEach((row, r) => {
      for (const v of row) {
        low[r] = Math.min(low[r], x[v] - half[v]);
        high[r] = Math.max(high[r], x[v] + half[v]);
      }
    });
    const at = heights.map((h) => {
      total += h + GAP_Y;
      return total - h - GAP_Y;
    });
    let widest = 1;
    rows.forEach((_, r) => (widest = Math.max(widest, high[r] - low[r])));
    const about = Math.sqrt((aspect * total) / (widest + COLUMN_GAP));
    let best = null;
    let least = Infinity;
    for (let columns = Math.max(1, Math.floor(about * 0.7)); columns <= 2.5 * about + 1; columns += 1) {
      const starts = cutInto(columns, at, total, crossed);
      let width = -COLUMN_GAP;
      let tallest = 0;
      starts.forEach((first, c) => {
        const end = c + 1 < starts.length ? starts[c + 1] : rows.length;
        let left = Infinity;
        let right = -Infinity;
        for (let r = first; r < end; r += 1) {
          left = Math.min(left, low[r]);
          right = Math.max(right, high[r]);
        }
        width += right - left + COLUMN_GAP;
        tallest = Math.max(tallest, (end < rows.length ? at[end] : total) - at[first]);
      });
      const size = Math.max(width / aspect, tallest);
      if (size < least * 0.98) {
        least = size;
        best = starts;
      }
    }
    return best || [0];
  }

  function cutInto(columns, at, total, crossed) {
    const starts = [0];
    const each = total / columns;
    for (let c = 1; c < columns; c += 1) {
      let chosen = -1;
      let least = Infinity;
      let low = starts[starts.length - 1] + 1;
      let high = at.length;
      // The first rank from which on a cut is near enough; they ascend.
      while (low < high) {
        const middle = (low + high) >> 1;
        if (at[middle] < (c - 0.25) * each) low = middle + 1;
        else high = middle;
      }
      for (let r = low; r < at.length && at[r] <= (c + 0.25) * each; r += 1) {
        const cost = crossed[r] + (8 * Math.abs(at[r] - c * each)) / each;
        if (cost < least) {
          least = cost;
          chosen = r;
        }
      }
      if (chosen > 0) starts.push(chosen);
    }
    return starts;
  }

  /* Lay a graph out.
   *
   * width, height by node; edges from[e] -> to[e] without a cycle; aspect: width over height wanted.
   * Gives x, y (centres), rank, the points of each edge's bends (x0, y0, x1, y1, ... or null), the whole's
   * width and height, the column of each node, where the gutter left of each column is, and crossings
   * before and after.
   */
  function layout({ width, height, from, to, aspect = 1.6 }) {
    const nodes = width.length;
    const rank = ranksOf(nodes, from, to);
    const { ranks, a, b, bends } = withBends(nodes, from, to, rank);
    const count = ranks.length;
    const up = adjacency(count, b, a);
    const down = adjacency(count, a, b);
    const most = ranks.reduce((m, r) => Math.max(m, r), -1) + 1;
    const rows = Array.from({ length: most }, () => []);
    for (let v = 0; v < count; v += 1) rows[ranks[v]].push(v);
    const order = ordered(rows, up, down, count);
    const half = new Float64Array(count);
    const heights = new Float64Array(most);
    for (let v = 0; v < nodes; v += 1) {
      half[v] = width[v] / 2;
      heights[rank[v]] = Math.max(heights[rank[v]], height[v]);
    }
    const x = placed(order.rows, up, down, half, count);
    const crossed = new Float64Array(most + 1);
    for (let e = 0; e < from.length; e += 1) {
      crossed[rank[from[e]] + 1] += 1;
      crossed[rank[to[e]] + 1] -= 1;
    }
    for (let r = 1; r <= most; r += 1) crossed[r] += crossed[r - 1];
    const starts = columnsOf(order.rows, x, half, Array.from(heights), crossed, aspect);
    const y = new Float64Array(count);
    const columnOf = new Int32Array(most);
    const gutters = [];
    let left = 0;
    let highest = 0;
    starts.forEach((first, c) => {
      const end = c + 1 < starts.length ? starts[c + 1] : most;
      let low = Infinity;
      let high = -Infinity;
      for (let r = first; r < end; r += 1) {
        for (const v of order.rows[r]) {
          low = Math.min(low, x[v] - half[v]);
          high = Math.max(high, x[v] + half[v]);
        }
      }
      gutters.push(left - COLUMN_GAP / 2);
      let top = 0;
      for (let r = first; r < end; r += 1) {
        columnOf[r] = c;
        for (const v of order.rows[r]) {
          x[v] += left - low;
          y[v] = top + heights[r] / 2;
        }
        top += heights[r] + GAP_Y;
      }
      highest = Math.max(highest, top - GAP_Y);
      left += high - low + COLUMN_GAP;
    });
    const points = bends.map((chain) => {
      if (!chain) return null;
      const found = [];
      for (const v of chain) found.push(x[v], y[v]);
      return found;
    });
    return {
      x: x.slice(0, nodes),
      y: y.slice(0, nodes),
      rank,
      column: Int32Array.from(rank, (r) => columnOf[r]),
      points,
      width: Math.max(0, left - COLUMN_GAP),
      height: Math.max(0, highest),
      gutters,
      crossings: [order.first, order.best],
    };
  }

  hetsim.layout = layout;
})();
