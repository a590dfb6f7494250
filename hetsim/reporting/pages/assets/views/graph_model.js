/* What the graph's view knows: boxes of a plan with some of its groups unfolded, the time of a node in
 * a plan, and why it is where it is. Text and numbers only; nothing here draws.
 */
(() => {
  const NODE = { width: 138, height: 36 };
  const GROUP = { width: 168, height: 52 };
  const ALL_AT_ONCE = 160; // nodes up to which a graph is unfolded from the start

  function graphModel(columns) {
    const count = columns.nodes.name.length;
    const plans = columns.plans.map((plan) => {
      const members = plan.groups.device.map(() => []);
      plan.group.forEach((g, v) => members[g].push(v));
      const shared = new Map();
      plan.shared.node.forEach((v, i) =>
        shared.set(v, { seconds: plan.shared.seconds[i], members: plan.shared.members[i] }),
      );
      return { ...plan, members, shared };
    });
    const { value, to } = columns.edges;
    const edges = {
      from: value.map((k) => columns.values.from[k]),
      to,
      bytes: value.map((k) => columns.values.bytes[k]),
      value,
    };
    const outs = Array.from({ length: count }, () => []);
    const ins = Array.from({ length: count }, () => []);
    edges.from.forEach((u, e) => {
      outs[u].push(e);
      ins[edges.to[e]].push(e);
    });
    const model = {
      columns,
      edges,
      count,
      plans,
      devices: columns.devices,
      name: (v) => columns.nodes.name[v],
      op: (v) => columns.ops[columns.op[v]],
      deviceOf: (plan, v) => plan.groups.device[plan.group[v]],
      secondsOf: (plan, v) => {
        const shared = plan.shared.get(v);
        if (shared) return shared.seconds;
        return columns.times ? columns.times[plan.groups.device[plan.group[v]]][v] : null;
      },
    };
    model.startsUnfolded = (plan) => count <= ALL_AT_ONCE || plan.members.length < 2;
    model.unitsOf = (plan, unfolded) => unitsOf(model, plan, unfolded);
    model.whyOf = (plan, v) => whyOf(model, plan, v, ins, outs);
    model.found = (text) => found(model, text);
    model.mainOps = (plan, g) => mainOps(model, plan.members[g]);
    return model;
  }

  /* What is drawn: each node of an unfolded group, and each other group as a whole.
   *
   * `node[i]` is the node of box i or -1, `group[i]` its group; `boxOf[v]` the box that node v is in.
   */
  function unitsOf(model, plan, unfolded) {
    const boxOf = new Int32Array(model.count);
    const boxOfGroup = new Int32Array(plan.members.length).fill(-1);
    const node = [];
    const group = [];
    for (let v = 0; v < model.count; v += 1) {
      const g = plan.group[v];
      if (unfolded.has(g) || plan.members[g].length === 1) {
        boxOf[v] = node.length;
        node.push(v);
        group.push(g);
        continue;
      }
      if (boxOfGroup[g] < 0) {
        boxOfGroup[g] = node.length;
        node.push(-1);
        group.push(g);
      }
      boxOf[v] = boxOfGroup[g];
    }
    const { from, to } = model.edges;
    const known = new Set();
    const edges = { from: [], to: [], crosses: [] };
    for (let e = 0; e < from.length; e += 1) {
      const u = boxOf[from[e]];
      const w = boxOf[to[e]];
      if (u === w) continue;
      const key = u * node.length + w;
      if (known.has(key)) continue;
      known.add(key);
      edges.from.push(u);
      edges.to.push(w);
      edges.crosses.push(plan.groups.device[group[u]] !== plan.groups.device[group[w]]);
    }
    const sizes = node.map((v) => (v < 0 ? GROUP : NODE));
    return {
      node,
      group,
      boxOf,
      ...edges,
      width: sizes.map((s) => s.width),
      height: sizes.map((s) => s.height),
      device: group.map((g) => plan.groups.device[g]),
    };
  }

  function mainOps(model, nodes) {
    const tally = new Map();
    for (const v of nodes) tally.set(model.op(v), (tally.get(model.op(v)) || 0) + 1);
    const sorted = [...tally].sort((p, q) => q[1] - p[1] || (p[0] < q[0] ? -1 : 1));
    const shown = sorted.slice(0, 2).map(([op, times]) => `${op} ${times}`);
    if (sorted.length > 2) shown.push(`+${sorted.length - 2} more`);
    return shown.join(", ");
  }

  /* Why a node is on its device, and of each other device what it would take there, or why not.
   *
   * `alone_s` is what changes where only this node moves: its own time, and what it exchanges with
   * its neighbours by the links' figures, one after another. The plan weighs all nodes together.
   */
  function whyOf(model, plan, v, ins, outs) {
    const { times, refusals, routes } = model.columns;
    const here = model.deviceOf(plan, v);
    const name = (p) => model.devices[p];
    if (!times) return { here: plan.reason, elsewhere: [] };
    const able = model.devices.map((_, p) => p).filter((p) => times[p][v] !== null);
    const cost = (p) => exchanged(model, plan, v, p, ins, outs, routes);
    const now = times[here][v];
    const elsewhere = model.devices
      .map((_, p) => p)
      .filter((p) => p !== here)
      .map((p) => {
        if (times[p][v] === null) {
          const text = refusals.of[p][v];
          return { device: name(p), seconds: null, alone_s: null,
                   why: text < 0 ? "does not take it" : refusals.texts[text] };
        }
        const alone = now === null ? null : times[p][v] - now + cost(p) - cost(here);
        return { device: name(p), seconds: times[p][v], alone_s: alone, why: "" };
      });
    const least = Math.min(...able.map((p) => times[p][v]));
    let told;
    if (now === null) told = `${name(here)} takes it only within a pattern.`;
    else if (able.length === 1) told = `Only ${name(here)} takes it.`;
    else if (now <= least) {
      told = able.some((p) => p !== here && times[p][v] === least)
        ? `No device that takes it is faster than ${name(here)}.`
        : `${name(here)} is the fastest of the ${able.length} devices that take it.`;
    } else {
      const rivals = elsewhere.filter((one) => one.seconds !== null && one.seconds < now);
      const worth = rivals.filter((one) => one.alone_s < 0).map((one) => one.device);
      const names = rivals.map((one) => one.device).join(", ");
      told = worth.length
        ? `Alone it would be faster on ${names}, even with what it exchanges; the plan keeps it in its subgraph.`
        : `Faster on ${names}, but what it exchanges with its neighbours would cost more than that gains.`;
    }
    return { here: told, elsewhere };
  }

  /* Seconds of the transfers around node v if it were on device p and all others stayed. */
  function exchanged(model, plan, v, p, ins, outs, routes) {
    const { edges } = model;
    const { nodes, host } = model.columns;
    const seconds = (from, to, bytes) =>
      from === to ? 0 : routes.latency_s[from][to] + bytes * routes.s_per_byte[from][to];
    let sum = 0;
    for (const e of ins[v]) sum += seconds(model.deviceOf(plan, edges.from[e]), p, edges.bytes[e]);
    const sent = new Set(); // a value goes to a device once, whoever reads it there
    for (const e of outs[v]) {
      const q = model.deviceOf(plan, edges.to[e]);
      const key = `${edges.value[e]} ${q}`;
      if (!sent.has(key)) sum += seconds(p, q, edges.bytes[e]);
      sent.add(key);
    }
    if (host !== null) {
      if (nodes.given[v]) sum += seconds(host, p, nodes.given[v]);
      if (nodes.kept[v]) sum += seconds(p, host, nodes.kept[v]);
    }
    return sum;
  }

  /* Nodes whose name, operator or name in the file holds the text, whatever its case. */
  function found(model, text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const { name, origins } = model.columns.nodes;
    const holds = (word) => word.toLowerCase().includes(wanted);
    const matches = [];
    for (let v = 0; v < model.count; v += 1) {
      if (holds(name[v]) || holds(model.op(v)) || (origins[v] || []).some(holds)) matches.push(v);
    }
    return matches;
  }

  hetsim.graphModel = graphModel;
})();
