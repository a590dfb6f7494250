/* The view of the model's graph: who runs what, what it takes, and why it is there. */
(() => {
  const NONE = -1; // nothing is shown alone ...
  const MARKED = -2; // ... or what the report marks, or a device by its place
  const NEAR = 4; // pixels that a pointer may move in a click
  const { told, count } = hetsim;

  async function draw(root, island) {
    const picture = island.pictures.graph;
    const columns = await hetsim.unpacked(picture);
    if (!columns.nodes) {
      root.append(hetsim.element("p", { class: "note", text: hetsim.told(columns.cut) }));
      return;
    }
    hetsim.graphs.push(new GraphView(root, hetsim.graphModel(columns)));
  }

  class GraphView {
    constructor(root, model) {
      this.model = model;
      this.plan = model.plans[0];
      this.found = [];
      this.at = -1;
      this.only = NONE;
      this.build(root);
      this.canvas = new hetsim.GraphCanvas(this.surface);
      this.pointers();
      this.theme();
      this.choose(0);
      this.wide = this.surface.clientWidth;
      new ResizeObserver(() => this.resized()).observe(this.surface);
      hetsim.onTheme(root, () => {
        this.theme();
        this.canvas.ask();
      });
    }

    theme() {
      const { colour } = hetsim;
      const { context } = this.canvas;
      const looks = this.model.devices.map((_, p) => this.look(p));
      const fills = looks.map((look) => hetsim.hatch(context, look));
      this.canvas.colours = {
        text: colour("ink"), line: colour("soft"), card: colour("paper"), accent: colour("strong"),
        device: (p) => looks[p].colour,
        fill: (p) => fills[p],
      };
    }

    look(p) {
      const known = hetsim.devices().includes(this.model.devices[p]);
      return known ? hetsim.deviceLook(this.model.devices[p]) : hetsim.look(p);
    }

    /* A canvas that was not seen before is laid out anew. */
    resized() {
      const was = this.wide;
      this.wide = this.surface.clientWidth;
      if (was < 50 && this.wide >= 50) this.choose(this.model.plans.indexOf(this.plan));
      else this.canvas.ask();
    }

    build(root) {
      const el = hetsim.element;
      const { model } = this;
      const button = (text, title, act, about = {}) => hetsim.button(text, act, { title, ...about });
      this.search = el("input", { type: "search", placeholder: "node, operator", "aria-label": "Search nodes by name or operator", spellcheck: "false" });
      this.count = el("span", { class: "graph-count", role: "status" });
      this.choice = el("select", { "aria-label": "Plan" });
      model.plans.forEach((plan, i) => this.choice.append(el("option", { value: String(i) }, told(plan.name, 80))));
      this.choice.hidden = model.plans.length < 2;
      this.folds = button("Unfold all", "Show every node, or every subgraph as a box", () => this.foldAll());
      const bar = el("div", { class: "tools", role: "group", "aria-label": "Graph" },
        this.choice, this.search, this.count, el("span", { class: "gap" }),
        button("Fit", "All of it in view (0)", () => this.canvas.fit()),
        button("+", "Larger (+)", () => this.zoom(1.4), { "aria-label": "Larger" }),
        button("−", "Smaller (-)", () => this.zoom(1 / 1.4), { "aria-label": "Smaller" }),
        this.folds);
      this.keys = el("div", { class: "graph-legend", role: "group", "aria-label": "Devices: show one alone" });
      this.surface = el("canvas", {
        class: "graph-canvas", tabindex: "0", role: "application",
        "aria-label": "The model's graph. Arrows walk along edges, Enter folds and unfolds a subgraph, plus and minus zoom, shift and arrows pan, 0 shows all, / searches.",
      });
      this.panel = el("aside", { class: "graph-panel", "aria-label": "The chosen node" });
      const hint = el("p", { class: "caption graph-hint" }, "Drag to move, Ctrl and wheel (or the wheel, once it has the focus) to zoom; a click on a subgraph unfolds it.");
      root.append(bar, this.keys, el("div", { class: "graph-stage" }, this.surface, this.panel), hint);
      if (model.columns.cut) root.append(el("p", { class: "note", text: hetsim.told(model.columns.cut) }));
      this.choice.addEventListener("change", () => this.choose(Number(this.choice.value)));
      this.search.addEventListener("input", () => this.seek(true));
      this.search.addEventListener("keydown", (event) => {
        if (event.key === "Enter") {
          event.preventDefault();
          this.next(event.shiftKey ? -1 : 1);
        } else if (event.key === "Escape") {
          this.search.value = "";
          this.seek(true);
          this.surface.focus();
        }
      });
      this.surface.addEventListener("keydown", (event) => this.key(event));
    }

    /* A button a device, and one for the nodes that a report marks: what is chosen is shown alone. */
    legend() {
      const el = hetsim.element;
      const { model, plan } = this;
      const used = new Map();
      plan.groups.device.forEach((p, g) => used.set(p, (used.get(p) || 0) + plan.members[g].length));
      const choices = [...used.keys()].sort((p, q) => p - q).map((p) => ({
        only: p,
        shown: [hetsim.swatch(this.look(p)), ` ${told(model.devices[p], 60)}: ${count(used.get(p), "node")}`],
      }));
      const { marked } = model.columns;
      if (marked && marked.nodes.length) {
        choices.push({ only: MARKED, shown: [`${told(marked.label, 60)}: ${count(marked.nodes.length, "node")}`] });
      }
      this.keys.replaceChildren(...choices.map(({ only, shown }, place) =>
        el("button", {
          type: "button",
          "aria-pressed": String(this.only === only),
          onclick: () => {
            this.only = this.only === only ? NONE : only;
            this.legend();
            this.light();
            this.keys.children[place].focus();
          },
        }, ...shown)));
    }

    /* Show plan i, folded as large graphs are. */
    choose(i) {
      this.plan = this.model.plans[i];
      this.only = NONE;
      const all = this.model.startsUnfolded(this.plan);
      this.unfolded = new Set(all ? this.plan.members.keys() : []);
      this.legend();
      this.arrange();
      this.canvas.fit(true);
      const kept = this.node ?? -1;
      this.select(kept < 0 ? -1 : this.canvas.units.boxOf[kept]);
    }

    arrange() {
      const { model, plan } = this;
      const units = model.unitsOf(plan, this.unfolded);
      const [width, height] = this.canvas.size;
      const aspect = height > 0 ? Math.max(0.4, width / height) : 1.6;
      const layout = hetsim.layout({ ...units, aspect });
      const seconds = units.node.map((v, i) => (v < 0 ? plan.groups.seconds[units.group[i]] : model.secondsOf(plan, v)));
      const most = seconds.reduce((m, s) => Math.max(m, s || 0), 0) || 1;
      const names = model.devices.map((name) => told(name, 12));
      const time = (s) => (s === null ? "" : ` · ${hetsim.seconds(s)}`);
      this.canvas.show(units, layout, {
        title: units.node.map((v, i) =>
          v < 0 ? `g${units.group[i]} · ${names[units.device[i]]}` : told(model.op(v), 22)),
        detail: units.node.map((v, i) =>
          v < 0
            ? `${count(plan.members[units.group[i]].length, "node")}${time(seconds[i])}`
            : `${names[units.device[i]]}${time(seconds[i])}`),
        more: units.node.map((v, i) => (v < 0 ? told(model.mainOps(plan, units.group[i]), 34) : "")),
        bar: seconds.map((s) => (s || 0) / most),
      });
      const foldable = plan.members.some((nodes) => nodes.length > 1);
      this.folds.hidden = !foldable;
      this.allOpen = plan.members.every((nodes, g) => nodes.length === 1 || this.unfolded.has(g));
      this.folds.textContent = this.allOpen ? "Fold all" : "Unfold all";
      this.light();
    }

    foldAll() {
      this.unfolded = new Set(this.allOpen ? [] : this.plan.members.keys());
      const node = this.node;
      this.arrange();
      this.canvas.fit(true);
      this.select(node === undefined || node < 0 ? -1 : this.canvas.units.boxOf[node]);
      hetsim.say(this.allOpen ? "every node is shown" : "subgraphs are folded");
    }

    /* Fold or unfold a group, which stays where it is on the screen. */
    toggle(g) {
      if (this.plan.members[g].length === 1) return;
      const { canvas } = this;
      const first = this.plan.members[g][0];
      const was = canvas.units.boxOf[this.node >= 0 && this.plan.group[this.node] === g ? this.node : first];
      const [px, py] = [(canvas.layout.x[was] - canvas.left) * canvas.scale, (canvas.layout.y[was] - canvas.top) * canvas.scale];
      const opens = !this.unfolded.has(g);
      if (opens) this.unfolded.add(g);
      else this.unfolded.delete(g);
      this.arrange();
      const now = canvas.units.boxOf[first];
      canvas.left = canvas.layout.x[now] - px / canvas.scale;
      canvas.top = canvas.layout.y[now] - py / canvas.scale;
      canvas.hold();
      this.select(now);
      if (opens) hetsim.say(`g${g} unfolded: ${count(this.plan.members[g].length, "node")}; ${this.told()}`);
    }

    /* Choose box i, -1 for none; the panel and the live text say what it is. */
    select(i, reveal = true) {
      const { canvas, model, plan } = this;
      canvas.selected = i;
      this.box = i;
      this.node = i < 0 ? -1 : canvas.units.node[i];
      const { ofPlan, ofGroup, ofNode } = hetsim.graphPanel;
      if (i < 0) {
        this.panel.replaceChildren(...ofPlan(model, plan, (g) => this.select(canvas.units.boxOf[plan.members[g][0]])));
      } else {
        if (reveal) canvas.reveal(i);
        const g = canvas.units.group[i];
        this.panel.replaceChildren(
          ...(this.node < 0 ? ofGroup(model, plan, g) : ofNode(model, plan, this.node)), this.foldButton(g));
        hetsim.say(this.told());
      }
      canvas.ask();
    }

    told() {
      const { model, plan, box } = this;
      if (box < 0) return "nothing chosen";
      const { units } = this.canvas;
      const g = units.group[box];
      const device = told(model.devices[units.device[box]]);
      if (this.node < 0) {
        return `subgraph g${g} on ${device}, ${count(plan.members[g].length, "node")}, ${hetsim.seconds(plan.groups.seconds[g])}`;
      }
      const seconds = model.secondsOf(plan, this.node);
      const time = seconds === null ? "" : `, ${hetsim.seconds(seconds)}`;
      return `${told(model.name(this.node), 120)}, ${told(model.op(this.node), 40)} on ${device}${time}. ${told(model.whyOf(plan, this.node).here, 300)}`;
    }

    foldButton(g) {
      if (this.plan.members[g].length === 1) return "";
      return hetsim.button(this.unfolded.has(g) ? `Fold g${g}` : `Unfold g${g}`, () => this.toggle(g));
    }

    seek(moves) {
      this.found = this.model.found(this.search.value);
      this.at = -1;
      const asked = this.search.value.trim() !== "";
      this.count.textContent = asked ? count(this.found.length, "match", "matches") : "";
      this.light();
      if (moves && this.found.length === 1) this.next(1);
    }

    next(step) {
      if (!this.found.length) return;
      this.at = (this.at + step + this.found.length) % this.found.length;
      const v = this.found[this.at];
      this.count.textContent = `${this.at + 1} of ${count(this.found.length, "match", "matches")}`;
      const g = this.plan.group[v];
      if (!this.unfolded.has(g) && this.plan.members[g].length > 1) {
        this.unfolded.add(g);
        this.arrange();
      }
      this.select(this.canvas.units.boxOf[v]);
    }

    /* Dim what is not searched for, and what is not on the device that is shown alone. */
    light() {
      const { units } = this.canvas;
      const asked = this.search.value.trim() !== "";
      if (!asked && this.only === NONE) this.canvas.lit = null;
      else {
        const lit = new Uint8Array(units.node.length);
        const { marked } = this.model.columns;
        const of = asked ? this.found : this.only === MARKED ? marked.nodes : this.plan.group.keys();
        for (const v of of) {
          const i = units.boxOf[v];
          if (this.only < 0 || units.device[i] === this.only) lit[i] = 1;
        }
        this.canvas.lit = lit;
      }
      this.canvas.ask();
    }

    zoom(factor) {
      const [width, height] = this.canvas.size;
      this.canvas.zoom(factor, width / 2, height / 2);
    }

    pointers() {
      const { surface, canvas } = this;
      hetsim.pointing(surface, {
        near: NEAR,
        travel: (dx, dy) => Math.abs(dx) + Math.abs(dy),
        captures: () => true,
        hover: (at) => {
          const over = canvas.hit(...at);
          surface.style.cursor = over < 0 ? "grab" : "pointer";
          surface.title = over < 0 ? "" : this.title(over);
        },
        drag: (dx, dy) => canvas.pan(dx, dy),
        pinch: (was, now, [ox, oy]) => {
          const before = Math.hypot(was[0] - ox, was[1] - oy);
          const after = Math.hypot(now[0] - ox, now[1] - oy);
          if (before > 0) canvas.zoom(after / before, ox, oy);
        },
        click: (at) => {
          const i = canvas.hit(...at);
          if (i < 0) this.select(-1, false);
          else if (canvas.units.node[i] < 0) this.toggle(canvas.units.group[i]);
          else this.select(i, false);
        },
      });
      surface.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && document.activeElement !== surface) return;
        event.preventDefault();
        canvas.zoom(Math.exp(-event.deltaY * 0.0015), ...hetsim.placeOn(surface, event));
      }, { passive: false });
    }

    title(i) {
      const { units } = this.canvas;
      const v = units.node[i];
      const device = told(this.model.devices[units.device[i]]);
      if (v < 0) return `g${units.group[i]} on ${device}; click to unfold`;
      return `${told(this.model.name(v), 200)} (${told(this.model.op(v), 60)}) on ${device}`;
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
      let done = true;
      if (step && event.shiftKey) this.canvas.pan(-80 * step[0], -80 * step[1]);
      else if (step) this.walk(...step);
      else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.canvas.fit();
      else if (event.key === "/") this.search.focus();
      else if (event.key === "Home") this.select(this.end(1));
      else if (event.key === "End") this.select(this.end(-1));
      else if (event.key === "Escape") this.select(-1, false);
      else if ((event.key === "Enter" || event.key === " ") && this.box >= 0) this.toggle(this.canvas.units.group[this.box]);
      else done = false;
      if (done) event.preventDefault();
    }

    end(sign) {
      const { rank, x } = this.canvas.layout;
      let best = 0;
      for (let i = 1; i < rank.length; i += 1) {
        const less = sign * (rank[i] - rank[best]) || x[i] - x[best];
        if (less < 0) best = i;
      }
      return best;
    }

    /* Down and up along an edge, to the nearest at its other end; sideways within the rank. */
    walk(dx, dy) {
      const { units, layout } = this.canvas;
      const { box } = this;
      if (box < 0) {
        this.select(this.end(1));
        return;
      }
      const near = [];
      if (dy) {
        const [here, there] = dy > 0 ? [units.from, units.to] : [units.to, units.from];
        here.forEach((u, e) => {
          if (u === box) near.push(there[e]);
        });
        near.sort((p, q) => layout.rank[p] * dy - layout.rank[q] * dy || Math.abs(layout.x[p] - layout.x[box]) - Math.abs(layout.x[q] - layout.x[box]) || p - q);
      } else {
        layout.rank.forEach((r, i) => {
          if (r === layout.rank[box] && (layout.x[i] - layout.x[box]) * dx > 0) near.push(i);
        });
        near.sort((p, q) => (layout.x[p] - layout.x[q]) * dx);
      }
      if (near.length) this.select(near[0]);
      else hetsim.say(`nothing ${dy > 0 ? "reads it" : dy < 0 ? "feeds it" : "beside it"}; ${this.told()}`);
    }
  }

  hetsim.graphs = []; // those that were drawn
  hetsim.view({
    id: "graph",
    title: "Graph",
    order: 20,
    shows: (island) => Boolean(island.pictures.graph),
    draw,
  });
})();
