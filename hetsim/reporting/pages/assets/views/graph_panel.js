/* What the graph's panel says of a plan, of a subgraph and of a node. */
(() => {
  const { told, count, element: el, seconds, bytes } = hetsim;

  /* A plan: `choose(g)` where one of its subgraphs is asked for. */
  function ofPlan(model, plan, choose) {
    const longest = plan.members.map((_, g) => g).sort((p, q) => plan.groups.seconds[q] - plan.groups.seconds[p]).slice(0, 5);
    return [
      el("h3", { class: "graph-name" }, told(plan.name)),
      el("p", {}, told(plan.reason, 600)),
      facts([["nodes", String(model.count)], ["subgraphs", String(plan.members.length)]]),
      el("h4", {}, "Longest subgraphs"),
      el("ul", { class: "graph-list" }, ...longest.map((g) => el("li", {}, hetsim.button(
        `g${g} on ${told(model.devices[plan.groups.device[g]], 60)}: ${count(plan.members[g].length, "node")}, ${seconds(plan.groups.seconds[g])}`,
        () => choose(g))))),
    ];
  }

  function ofGroup(model, plan, g) {
    const { groups } = plan;
    return [
      el("h3", { class: "graph-name" }, `Subgraph g${g} on ${told(model.devices[groups.device[g]])}`),
      facts([
        ["time", seconds(groups.seconds[g])],
        ["nodes", `${plan.members[g].length}: ${told(model.mainOps(plan, g), 200)}`],
        ["weights", bytes(groups.weights[g])],
        ["receives", bytes(groups.receives[g])],
        ["sends", bytes(groups.sends[g])],
        ["first node", told(model.name(plan.members[g][0]), 300)],
      ]),
    ];
  }

  function ofNode(model, plan, v) {
    const { nodes, notes } = model.columns;
    const g = plan.group[v];
    const alone = model.secondsOf(plan, v);
    const shared = plan.shared.get(v);
    const why = model.whyOf(plan, v);
    const origins = nodes.origins[v] || [];
    const rows = [
      ["operator", told(model.op(v), 200)],
      ["device", told(model.devices[plan.groups.device[g]])],
      ["subgraph", `g${g}, of ${count(plan.members[g].length, "node")}`],
      ["time", seconds(alone) + (alone !== null && shared && shared.members > 1 ? `, its share of one kernel of ${shared.members} nodes` : "")],
      ["reads", bytes(nodes.reads[v]) + (nodes.given[v] ? `, ${bytes(nodes.given[v])} of it inputs of the model` : "")],
      ["writes", bytes(nodes.writes[v]) + (nodes.kept[v] ? `, ${bytes(nodes.kept[v])} of it outputs of the model` : "")],
      ["weights", bytes(nodes.weights[v])],
      ["memory", `${bytes(nodes.reads[v] + nodes.writes[v] + nodes.weights[v])} while it runs`],
    ];
    if (origins.length) {
      const shown = origins.slice(0, 6).map((name) => told(name, 120)).join(", ");
      rows.push(["in the file", shown + (origins.length > 6 ? ` and ${origins.length - 6} more` : "")]);
    }
    if (notes[v]) rows.push(["note", told(notes[v], 400)]);
    const elsewhere = why.elsewhere.map((one) => [
      told(one.device, 60),
      seconds(one.seconds),
      one.seconds === null ? told(one.why, 400) : one.alone_s === null ? "" : moved(one.alone_s),
    ]);
    return [
      el("h3", { class: "graph-name" }, told(model.name(v), 300)),
      facts(rows),
      el("h4", {}, "Why here"),
      el("p", {}, told(why.here, 600)),
      ...(elsewhere.length
        ? [el("h4", {}, "Elsewhere"), table(["device", "time", "if it moved alone"], elsewhere)]
        : []),
    ];
  }

  function moved(change) {
    const text = seconds(Math.abs(change));
    return change > 0 ? `${text} slower` : change < 0 ? `${text} faster` : "the same";
  }

  function facts(rows) {
    const list = el("dl", { class: "graph-facts" });
    for (const [name, text] of rows) list.append(el("dt", {}, name), el("dd", {}, text));
    return list;
  }

  function table(heads, rows) {
    return el("table", { class: "graph-elsewhere" },
      el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text) => el("td", { text }))))));
  }

  hetsim.graphPanel = { ofPlan, ofGroup, ofNode };
})();
