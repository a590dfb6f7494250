/* The graph on a canvas: boxes and edges of a layout under a pan and a zoom. What is outside is not
 * drawn, and what would be too small to read is left out: text, then cards, then edges on one device.
 */
(() => {
  const CARDS = 0.28; // of the full size, from which boxes are cards with a stripe
  const WORD = 0.36; // ... have a word on them
  const TEXT = 0.62; // ... and all of their text
  const EDGES_MOST = 5000; // seen at once; of more only those between devices, and then a part
  const LEAST = 0.01;
  const LARGEST = 4;
  const FONT = "system-ui, sans-serif";

  class GraphCanvas {
    constructor(canvas) {
      this.canvas = canvas;
      this.context = canvas.getContext("2d");
      this.scale = 1;
      this.left = 0; // of the graph, in its own units, at the canvas's left edge
      this.top = 0;
      this.units = null;
      this.selected = -1;
      this.lit = null; // a Uint8Array: boxes that are not dimmed
      this.colours = null; // of the theme: text, line, card, accent, and device(p) and fill(p)
      this.asked = 0;
    }

    /* Take boxes (of unitsOf) with their layout and texts: title, detail and bar in [0, 1] by box. */
    show(units, layout, texts) {
      this.units = units;
      this.layout = layout;
      this.texts = texts;
      this.lit = null;
      this.selected = -1;
      const byDevice = new Map();
      units.device.forEach((p, i) => {
        if (!byDevice.has(p)) byDevice.set(p, []);
        byDevice.get(p).push(i);
      });
      this.byDevice = byDevice;
      this.paths = units.from.map((_, e) => this.boundsOf(e));
    }

    boundsOf(e) {
      const { x, y, points, column, gutters } = this.layout;
      const u = this.units.from[e];
      const v = this.units.to[e];
      const ends = [x[u], y[u], x[v], y[v], ...(points[e] || [])];
      if (column[u] !== column[v]) ends.push(gutters[column[v]] - 30, y[u] + this.units.height[u]);
      let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
      for (let i = 0; i < ends.length; i += 2) {
        x0 = Math.min(x0, ends[i]);
        x1 = Math.max(x1, ends[i]);
        y0 = Math.min(y0, ends[i + 1]);
        y1 = Math.max(y1, ends[i + 1]);
      }
      return [x0, y0, x1, y1];
    }

    get size() {
      return [this.canvas.clientWidth, this.canvas.clientHeight];
    }

    resize() {
      const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
      const [width, height] = this.size;
      this.ratio = ratio;
      if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
      if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    }

    /* All of it in view; with `readable`, its beginning where all of it would be too small. */
    fit(readable = false) {
      const [width, height] = this.size;
      const { layout } = this;
      const whole = Math.min(width / (layout.width + 40), height / (layout.height + 40));
      const least = readable ? WORD : 0;
      this.scale = this.within(Math.min(1.25, Math.max(whole, least)));
      const [w, h] = [width / this.scale, height / this.scale];
      this.left = layout.width + 40 <= w ? (layout.width - w) / 2 : -20;
      this.top = layout.height + 40 <= h ? (layout.height - h) / 2 : -20;
      this.ask();
    }

    within(scale) {
      return Math.min(LARGEST, Math.max(LEAST, scale));
    }

    zoom(factor, px, py) {
      const next = this.within(this.scale * factor);
      this.left += px / this.scale - px / next;
      this.top += py / this.scale - py / next;
      this.scale = next;
      this.ask();
    }

    pan(dx, dy) {
      this.left -= dx / this.scale;
      this.top -= dy / this.scale;
      this.hold();
      this.ask();
    }

    /* A part of the graph stays in view. */
    hold() {
      const [width, height] = this.size;
      const { layout } = this;
      const margin = 60 / this.scale;
      this.left = Math.min(layout.width - margin, Math.max(margin - width / this.scale, this.left));
      this.top = Math.min(layout.height - margin, Math.max(margin - height / this.scale, this.top));
    }

    /* Move so that a box is in view, no more than is needed; larger where it could not be read. */
    reveal(i) {
      const [width, height] = this.size;
      if (this.scale < WORD) {
        this.scale = 0.8;
        this.left = this.layout.x[i] - width / 2 / this.scale;
        this.top = this.layout.y[i] - height / 2 / this.scale;
      }
      const [w, h] = [width / this.scale, height / this.scale];
      const dx = this.units.width[i] / 2 + 30;
      const dy = this.units.height[i] / 2 + 30;
      const [x, y] = [this.layout.x[i], this.layout.y[i]];
      this.left = Math.min(x - dx, Math.max(x + dx - w, this.left));
      this.top = Math.min(y - dy, Math.max(y + dy - h, this.top));
      this.ask();
    }

    hit(px, py) {
      const x = this.left + px / this.scale;
      const y = this.top + py / this.scale;
      const { units, layout } = this;
      for (let i = 0; i < units.node.length; i += 1) {
        if (Math.abs(layout.x[i] - x) <= units.width[i] / 2 && Math.abs(layout.y[i] - y) <= units.height[i] / 2) return i;
      }
      return -1;
    }

    ask() {
      if (this.asked) return;
      this.asked = requestAnimationFrame(() => {
        this.asked = 0;
        this.draw();
      });
    }

    draw() {
      if (!this.units) return;
      this.resize();
      const { context: c, units, layout, scale, ratio } = this;
      const [width, height] = this.size;
      const seen = [this.left, this.top, this.left + width / scale, this.top + height / scale];
      c.setTransform(1, 0, 0, 1, 0, 0);
      c.clearRect(0, 0, this.canvas.width, this.canvas.height);
      c.setTransform(ratio * scale, 0, 0, ratio * scale, -this.left * scale * ratio, -this.top * scale * ratio);
      this.drawEdges(seen);
      for (const [p, boxes] of this.byDevice) {
        const inside = boxes.filter(
          (i) =>
            layout.x[i] + units.width[i] / 2 >= seen[0] && layout.x[i] - units.width[i] / 2 <= seen[2] &&
            layout.y[i] + units.height[i] / 2 >= seen[1] && layout.y[i] - units.height[i] / 2 <= seen[3],
        );
        if (!this.lit) this.drawBoxes(p, inside, 1);
        else {
          this.drawBoxes(p, inside.filter((i) => !this.lit[i]), 0.18);
          this.drawBoxes(p, inside.filter((i) => this.lit[i]), 1);
        }
      }
      if (this.selected >= 0) this.drawSelected();
    }

    drawEdges(seen) {
      const { context: c, units, paths, scale } = this;
      const inView = [];
      for (let e = 0; e < paths.length; e += 1) {
        const box = paths[e];
        if (box[0] > seen[2] || box[2] < seen[0] || box[1] > seen[3] || box[3] < seen[1]) continue;
        // An edge of less than a pixel and a half says nothing.
        if ((box[2] - box[0] + box[3] - box[1]) * scale > 1.5) inView.push(e);
      }
      let plain = inView.filter((e) => !units.crosses[e]);
      let crossing = inView.filter((e) => units.crosses[e]);
      if (inView.length > EDGES_MOST) {
        const every = Math.ceil(crossing.length / EDGES_MOST);
        plain = [];
        crossing = crossing.filter((_, i) => i % every === 0);
      }
      this.strokeEdges(plain, this.colours.line, 1 / Math.max(scale, 0.4), 0.55);
      this.strokeEdges(crossing, this.colours.text, 1.8 / Math.max(scale, 0.5), 0.75);
    }

    strokeEdges(edges, colour, width, alpha) {
      if (!edges.length) return;
      const c = this.context;
      c.globalAlpha = this.lit ? alpha * 0.4 : alpha;
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.beginPath();
      for (const e of edges) this.trace(e);
      c.stroke();
      if (this.scale >= CARDS) {
        c.fillStyle = colour;
        c.beginPath();
        for (const e of edges) this.arrow(e);
        c.fill();
      }
      c.globalAlpha = 1;
    }

    trace(e) {
      const { context: c, units, layout } = this;
      const { x, y, points, column } = layout;
      const u = units.from[e];
      const v = units.to[e];
      const [x0, y0] = [x[u], y[u] + units.height[u] / 2];
      const [x1, y1] = [x[v], y[v] - units.height[v] / 2];
      c.moveTo(x0, y0);
      if (column[u] !== column[v]) {
        // Between ranks, and up between columns: no box is there.
        const lane = layout.gutters[column[v]] + 5 * ((u % 9) - 4);
        c.arcTo(x0, y0 + 12, lane, y0 + 12, 8);
        c.arcTo(lane, y0 + 12, lane, y1 - 12, 8);
        c.arcTo(lane, y1 - 12, x1, y1 - 12, 8);
        c.arcTo(x1, y1 - 12, x1, y1, 8);
        c.lineTo(x1, y1);
        return;
      }
      const bends = points[e];
      if (!bends) {
        if (y1 - y0 > 200) c.bezierCurveTo(x0 + 90, y0 + 80, x1 + 90, y1 - 80, x1, y1);
        else c.lineTo(x1, y1);
        return;
      }
      for (let i = 0; i < bends.length; i += 2) c.lineTo(bends[i], bends[i + 1]);
      c.lineTo(x1, y1);
    }

    arrow(e) {
      const { context: c, units, layout } = this;
      const v = units.to[e];
      const x = layout.x[v];
      const y = layout.y[v] - units.height[v] / 2;
      c.moveTo(x, y);
      c.lineTo(x - 4, y - 7);
      c.lineTo(x + 4, y - 7);
    }

    drawBoxes(device, boxes, alpha) {
      if (!boxes.length) return;
      const { context: c, units, layout, scale, colours } = this;
      const place = (i) => [layout.x[i] - units.width[i] / 2, layout.y[i] - units.height[i] / 2];
      const all = (grow) => {
        c.beginPath();
        for (const i of boxes) {
          const [x, y] = place(i);
          c.rect(x - grow, y - grow, units.width[i] + 2 * grow, units.height[i] + 2 * grow);
        }
      };
      const colour = colours.device(device);
      c.globalAlpha = alpha;
      if (scale < CARDS) {
        // A little larger than they are, so that boxes of a pixel or two are still seen.
        all(scale < 0.08 ? 0.6 / scale : 0);
        c.fillStyle = colour;
        c.fill();
        c.globalAlpha = 1;
        return;
      }
      const stacks = boxes.filter((i) => units.node[i] < 0);
      c.strokeStyle = colour;
      c.lineWidth = 1.2;
      if (stacks.length) {
        c.beginPath();
        for (const i of stacks) {
          const [x, y] = place(i);
          c.rect(x + 5, y + 5, units.width[i], units.height[i]);
        }
        c.fillStyle = colours.card;
        c.fill();
        c.stroke();
      }
      all(0);
      c.fillStyle = colours.card;
      c.fill();
      c.globalAlpha = alpha * 0.24;
      c.fillStyle = colour;
      c.fill();
      c.globalAlpha = alpha;
      c.stroke();
      c.beginPath();
      for (const i of boxes) {
        const [x, y] = place(i);
        c.rect(x, y, 9, units.height[i]);
      }
      c.fillStyle = colours.fill(device);
      c.fill();
      c.beginPath();
      for (const i of boxes) {
        const [x, y] = place(i);
        const bar = this.texts.bar[i] * (units.width[i] - 9);
        if (bar > 0.5) c.rect(x + 9, y + units.height[i] - 4, bar, 4);
      }
      c.fillStyle = colour;
      c.fill();
      if (scale >= WORD) this.drawTexts(boxes, place);
      c.globalAlpha = 1;
    }

    drawTexts(boxes, place) {
      const { context: c, units, texts, colours } = this;
      c.fillStyle = colours.text;
      c.textBaseline = "alphabetic";
      if (this.scale < TEXT) {
        // One word, as large as is needed to read it.
        const size = Math.min(26, 9.5 / this.scale);
        c.font = `600 ${size}px ${FONT}`;
        for (const i of boxes) {
          const [x, y] = place(i);
          const room = units.width[i] - 20;
          const fits = Math.max(4, Math.floor(room / (0.58 * size)));
          c.fillText(texts.title[i].slice(0, fits), x + 15, y + units.height[i] / 2 + size * 0.35, room);
        }
        return;
      }
      c.font = `600 12px ${FONT}`;
      for (const i of boxes) {
        const [x, y] = place(i);
        c.fillText(texts.title[i], x + 15, y + 14, units.width[i] - 20);
      }
      c.font = `11px ${FONT}`;
      for (const i of boxes) {
        const [x, y] = place(i);
        c.fillText(texts.detail[i], x + 15, y + 28, units.width[i] - 20);
        if (units.node[i] < 0) c.fillText(texts.more[i], x + 15, y + 42, units.width[i] - 20);
      }
    }

    drawSelected() {
      const { context: c, units, layout, colours, scale, selected } = this;
      const own = [];
      for (let e = 0; e < units.from.length; e += 1) {
        if (units.from[e] === selected || units.to[e] === selected) own.push(e);
      }
      c.strokeStyle = colours.accent;
      c.lineWidth = 2.4 / Math.min(1, scale);
      c.beginPath();
      for (const e of own) this.trace(e);
      c.stroke();
      c.lineWidth = 1.2 / Math.min(1, scale);
      c.setLineDash([4, 3]);
      c.beginPath();
      const ring = (i, grow) =>
        c.rect(layout.x[i] - units.width[i] / 2 - grow, layout.y[i] - units.height[i] / 2 - grow,
               units.width[i] + 2 * grow, units.height[i] + 2 * grow);
      units.group.forEach((g, i) => {
        if (g === units.group[selected] && i !== selected) ring(i, 2);
      });
      c.stroke();
      c.setLineDash([]);
      c.lineWidth = 3 / Math.min(1, scale);
      c.beginPath();
      ring(selected, 2);
      c.stroke();
    }
  }

  hetsim.GraphCanvas = GraphCanvas;
})();
