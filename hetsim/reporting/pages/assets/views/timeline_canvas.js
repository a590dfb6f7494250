// The timeline on a canvas: rows of tasks between two times, and what is where.
"use strict";
(() => {
  const { told, colour } = hetsim;
  const HEAD = 26, DEVICE = 30, LINK = 20, GAP = 6;

  const bright = (hex) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
  };

  // `state`: the opened picture, the times from and to, row, at, hover, request, path. Gives paint,
  // and where things are.
  hetsim.timelineCanvas = (frame, canvas, state) => {
    let inks = {}; // of the theme, as of the last paint
    const width = () => frame.clientWidth;
    const gutter = () => Math.min(170, Math.max(84, width() * 0.16));
    const span = () => state.to - state.from;
    const x = (ns) => gutter() + (ns - state.from) / span() * (width() - gutter() - 6);
    const ns = (at) => state.from + (at - gutter()) / (width() - gutter() - 6) * span();
    const height = (row) => (row.track.kind === "device" ? DEVICE : LINK);

    // Where each row stands; links stand below a gap.
    function laid() {
      const { rows } = state.picture.open;
      let y = HEAD, kind = "";
      for (const row of rows) {
        if (kind && kind !== row.track.kind) y += 10;
        kind = row.track.kind;
        row.y = y;
        y += height(row) + GAP;
      }
      return y + 4;
    }

    // 2: stands out, 1: as it is, 0: in the background.
    function rank(tasks, mark) {
      if (state.request >= 0) return tasks.request[mark] === state.request ? 2 : 0;
      if (state.path && state.picture.open.onPath.length) return tasks.critical[mark] ? 2 : 0;
      return 1;
    }
    const markColour = (row) =>
      (row.track.kind === "device" ? hetsim.rowLook(state.picture, row.track.device).colour : inks.soft);

    // The place of the first mark of a row that, or one before it, ends no earlier than this.
    function firstEnding(row, time) {
      let low = 0, high = row.marks.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (row.last[middle] < time) low = middle + 1; else high = middle;
      }
      return low;
    }

    function paint() {
      const wide = width();
      if (!wide) return;
      const tall = laid(), sharp = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(wide * sharp) || canvas.height !== Math.round(tall * sharp)) {
        canvas.width = Math.round(wide * sharp);
        canvas.height = Math.round(tall * sharp);
        canvas.style.height = `${tall}px`;
      }
      const pen = canvas.getContext("2d");
      inks = { ink: colour("ink"), soft: colour("soft"), line: colour("line"), card: colour("card") };
      pen.setTransform(sharp, 0, 0, sharp, 0, 0);
      pen.clearRect(0, 0, wide, tall);
      const family = getComputedStyle(document.body).fontFamily;
      const left = gutter();
      paintAxis(pen, wide, tall, left, family);
      paintNames(pen, left, family);
      pen.save();
      pen.beginPath(); pen.rect(left, 0, wide - left, tall); pen.clip();
      for (const row of state.picture.open.rows) paintRow(pen, row, wide, left, family);
      paintPath(pen, wide, left);
      paintMarked(pen);
      pen.restore();
    }

    function paintAxis(pen, wide, tall, left, family) {
      pen.font = `12px ${family}`;
      const steps = Math.max(2, Math.floor((wide - left) / 110));
      const raw = span() / steps, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
      const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([size]) => step >= size || size === 1 || state.to >= size * 2 && step >= size / 100);
      const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[0]) - 1e-9));
      pen.textBaseline = "middle";
      for (const row of state.picture.open.rows) {
        pen.fillStyle = inks.card;
        pen.fillRect(left, row.y, wide - left, height(row));
      }
      for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
        if (at < -step / 2) continue;
        const place = Math.round(x(at)) + 0.5;
        pen.strokeStyle = inks.line;
        pen.beginPath(); pen.moveTo(place, HEAD - 6); pen.lineTo(place, tall); pen.stroke();
        pen.fillStyle = inks.soft;
        pen.textAlign = place < left + 14 ? "left" : place > wide - 30 ? "right" : "center";
        pen.fillText(`${(Math.abs(at) / unit[0]).toFixed(digits)} ${unit[1]}`, place, 10);
      }
    }

    function paintNames(pen, left, family) {
      for (const [place, row] of state.picture.open.rows.entries()) {
        const tallness = height(row);
        pen.fillStyle = place === state.row ? colour("strong") : inks.ink;
        pen.textAlign = "right";
        pen.font = `${row.track.kind === "device" ? "600 13" : "12"}px ${family}`;
        pen.save();
        pen.beginPath(); pen.rect(0, row.y - 4, left - 4, tallness + 8); pen.clip();
        const name = told(row.name, 40);
        const fits = pen.measureText(name).width <= left - 26;
        pen.textAlign = fits ? "right" : "left";
        pen.fillText(name, fits ? left - 24 : 2, row.y + tallness / 2);
        pen.restore();
        if (row.track.kind === "device" && fits) {
          pen.fillStyle = hetsim.hatch(pen, hetsim.rowLook(state.picture, row.track.device));
          pen.fillRect(left - 18, row.y + tallness / 2 - 6, 12, 12);
        }
      }
    }

    // From task to task of the critical path.
    function paintPath(pen, wide, left) {
      const { tasks, ofTrack, onPath } = state.picture.open;
      if (!state.path || state.request >= 0 || !onPath.length || onPath.length >= 4000) return;
      pen.strokeStyle = inks.ink;
      pen.lineWidth = 1.6;
      pen.beginPath();
      let before = -1;
      for (const mark of onPath) {
        const row = ofTrack[tasks.track[mark]], middle = row.y + height(row) / 2;
        const start = x(tasks.start_ns[mark]);
        if (before >= 0 && before !== mark) {
          const from = ofTrack[tasks.track[before]];
          if (from !== row && start >= left - 5 && start <= wide + 5) {
            pen.moveTo(start, from.y + height(from) / 2);
            pen.lineTo(start, middle);
          }
        }
        before = mark;
      }
      pen.stroke();
      pen.lineWidth = 1;
    }

    // What is pointed at, and what was chosen.
    function paintMarked(pen) {
      const { tasks, rows, ofTrack } = state.picture.open;
      for (const [mark, dash] of [[state.hover, [3, 2]], [state.at, []]]) {
        if (mark < 0) continue;
        for (const row of rows) {
          // A task that holds several links is marked on each.
          for (let one = Math.max(0, mark - 8); one < Math.min(tasks.task.length, mark + 9); one += 1) {
            if (tasks.task[one] !== tasks.task[mark] || ofTrack[tasks.track[one]] !== row) continue;
            const start = x(tasks.start_ns[one]), end = x(tasks.start_ns[one] + tasks.duration_ns[one]);
            pen.strokeStyle = inks.ink;
            pen.lineWidth = 2.5;
            pen.setLineDash(dash);
            pen.strokeRect(start - 1.5, row.y - 1.5, Math.max(end - start, 2) + 3, height(row) + 3);
            pen.setLineDash([]);
            pen.lineWidth = 1;
          }
        }
      }
    }

    // What stands on a mark: of requests under load whose it is, but for what several share.
    function nameOf(mark) {
      const { tasks } = state.picture.open, label = told(state.picture.labels[tasks.label[mark]], 80);
      const own = state.picture.of === "requests" && tasks.request[mark] >= 0 && !label.startsWith("batch");
      return own ? `${tasks.request[mark] + 1}: ${label}` : label;
    }

    function paintRow(pen, row, wide, left, family) {
      const { tasks } = state.picture.open;
      const tallness = height(row);
      // What is narrower than a pixel is joined with its neighbours of the same rank.
      const open = [null, null, null];
      const scale = (wide - left - 6) / span();
      // A batch is there once for each of its requests: of that of the chosen one, only this.
      const single = state.picture.of === "requests" && state.request >= 0;
      const chosen = single ? row.marks.find((mark) => tasks.request[mark] === state.request) : undefined;
      const fill = (level, start, end) => {
        pen.globalAlpha = [0.28, 0.95, 1][level];
        pen.fillStyle = markColour(row);
        pen.fillRect(start, row.y, Math.max(end - start, 0.6), tallness);
        if (level === 2) {
          pen.fillStyle = inks.ink;
          pen.fillRect(start, row.y + tallness - 3, Math.max(end - start, 0.6), 3);
        }
        pen.globalAlpha = 1;
      };
      for (let place = firstEnding(row, state.from); place < row.marks.length; place += 1) {
        const mark = row.marks[place], begin = tasks.start_ns[mark];
        if (begin > state.to) break;
        const start = left + (begin - state.from) * scale, end = start + tasks.duration_ns[mark] * scale;
        if (end < left) continue;
        if (chosen !== undefined && mark !== chosen && row.track.kind === "device" && begin === tasks.start_ns[chosen]) continue;
        const level = rank(tasks, mark);
        if (end - start < 1.5) {
          const run = open[level];
          if (run && start <= run.end + 0.8) { run.end = Math.max(run.end, end); continue; }
          if (run) fill(level, run.start, run.end);
          open[level] = { start, end };
          continue;
        }
        const from = Math.max(start, left - 2), to = Math.min(end, wide + 2);
        const space = to - from > 4 ? 0.7 : 0;
        fill(level, from, to - space);
        if (to - from > 30) {
          const name = nameOf(mark), short = name.split(":")[0];
          pen.font = `12px ${family}`;
          const text = pen.measureText(name).width < to - from - 10 ? name : short;
          if (pen.measureText(text).width < to - from - 6) {
            const light = level === 0 ? !hetsim.dark() : bright(markColour(row));
            pen.fillStyle = light ? "#10161c" : "#ffffff";
            pen.textAlign = "left";
            pen.fillText(text, from + 5, row.y + tallness / 2 - (level === 2 ? 1 : 0));
          }
        }
      }
      open.forEach((run, level) => { if (run) fill(level, run.start, run.end); });
    }

    function hit(px, py) {
      const { rows, tasks } = state.picture.open;
      const row = rows.find((one) => py >= one.y - 3 && py < one.y + height(one) + 3);
      if (!row || px < gutter()) return -1;
      const at = ns(px), near = span() / width() * 4;
      let best = -1, gap = near;
      for (let place = firstEnding(row, at - near); place < row.marks.length; place += 1) {
        const mark = row.marks[place], start = tasks.start_ns[mark];
        if (start > at + near) break;
        const away = Math.max(start - at, at - start - tasks.duration_ns[mark], 0);
        if (away <= gap) { gap = away; best = mark; }
        if (away === 0) return mark;
      }
      return best;
    }

    return { paint, hit, width, gutter, span, ns, height, head: HEAD };
  };
})();
