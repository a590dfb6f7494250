// The timeline: devices and links as rows, zoomed and panned, one request picked out, the critical
// path shown. A canvas of our own: tens of thousands of tasks stay quick.
"use strict";
(() => {
  const { element, seconds, told, colour, button } = hetsim;
  const HEAD = 26, DEVICE = 30, LINK = 20, GAP = 6;

  const bright = (hex) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179;
  };

  async function draw(box, island) {
    const pictures = island.pictures.timelines;
    await hetsim.timelineOpened(pictures[0]);
    const state = { picture: pictures[0], from: 0, to: 1, row: -1, at: -1, hover: -1, request: -1, path: true };
    const canvas = element("canvas", { tabindex: 0, role: "application", class: "timeline-canvas",
      "aria-roledescription": "timeline", "aria-describedby": "timeline-keys" });
    const frame = element("div", { class: "timeline" }, canvas);
    const tip = element("div", { class: "tip", hidden: true });
    const detail = element("p", { class: "detail", text: "" });
    const range = element("span", { class: "range" });
    const key = element("div");
    const tables = element("div");
    const note = element("p", { class: "note", hidden: true });

    const tools = element("div", { class: "tools", role: "group", "aria-label": "Timeline" });
    tools.append(...hetsim.planChoice("timeline-plan", pictures, choose));
    const requests = element("select", { id: "timeline-request", onchange: () => pick(Number(requests.value)) });
    const requestsLabel = element("label", { for: "timeline-request", text: "request" });
    tools.append(requestsLabel, requests);
    const path = button("Critical path", () => { state.path = !state.path; shown(); }, { "aria-pressed": "true" });
    tools.append(path,
      button("\u2212", () => zoom(1.6), { "aria-label": "Zoom out" }),
      button("+", () => zoom(1 / 1.6), { "aria-label": "Zoom in" }),
      button("Whole", whole), element("span", { class: "gap" }), range);

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

    function moved(from, to) {
      const { end } = state.picture.open;
      const least = Math.min(end, 20), most = end * 1.02;
      let size = Math.min(Math.max(to - from, least), most);
      let first = from + (to - from - size) / 2;
      first = Math.min(Math.max(first, -end * 0.01), most - size);
      state.from = first;
      state.to = first + size;
      soon();
    }
    const zoom = (factor, about = (state.from + state.to) / 2) =>
      moved(about - (about - state.from) * factor, about + (state.to - about) * factor);
    const pan = (share) => moved(state.from + span() * share, state.to + span() * share);
    function whole() { moved(-state.picture.open.end * 0.01, state.picture.open.end * 1.01); }

    let waiting = false;
    function soon() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; paint(); });
    }

    // 2: stands out, 1: as it is, 0: in the background.
    function rank(tasks, mark) {
      if (state.request >= 0) return tasks.request[mark] === state.request ? 2 : 0;
      if (state.path && state.picture.open.onPath.length) return tasks.critical[mark] ? 2 : 0;
      return 1;
    }
    const markColour = (row, tasks, mark) => (row.track.kind === "device"
      ? hetsim.deviceLook(row.track.device).colour
      : state.link);

    function paint() {
      const wide = width();
      if (!wide) return;
      const { tasks, rows, ofTrack, onPath } = state.picture.open;
      const tall = laid(), sharp = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(wide * sharp) || canvas.height !== Math.round(tall * sharp)) {
        canvas.width = Math.round(wide * sharp);
        canvas.height = Math.round(tall * sharp);
        canvas.style.height = `${tall}px`;
      }
      const pen = canvas.getContext("2d");
      const ink = colour("ink"), soft = colour("soft"), line = colour("line"), card = colour("card");
      state.link = soft;
      state.bar = ink;
      pen.setTransform(sharp, 0, 0, sharp, 0, 0);
      pen.clearRect(0, 0, wide, tall);
      const family = getComputedStyle(document.body).fontFamily;
      const left = gutter();

      // The axis.
      pen.font = `12px ${family}`;
      const steps = Math.max(2, Math.floor((wide - left) / 110));
      const raw = span() / steps, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
      const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([size]) => step >= size || size === 1 || state.to >= size * 2 && step >= size / 100);
      const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[0]) - 1e-9));
      pen.textBaseline = "middle";
      for (const row of rows) {
        pen.fillStyle = card;
        pen.fillRect(left, row.y, wide - left, height(row));
      }
      for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
        if (at < -step / 2) continue;
        const place = Math.round(x(at)) + 0.5;
        pen.strokeStyle = line;
        pen.beginPath(); pen.moveTo(place, HEAD - 6); pen.lineTo(place, tall); pen.stroke();
        pen.fillStyle = soft;
        pen.textAlign = place < left + 14 ? "left" : place > wide - 30 ? "right" : "center";
        pen.fillText(`${(Math.abs(at) / unit[0]).toFixed(digits)} ${unit[1]}`, place, 10);
      }

      for (const [place, row] of rows.entries()) {
        const tallness = height(row);
        pen.fillStyle = place === state.row ? colour("strong") : ink;
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
          pen.fillStyle = hetsim.hatch(pen, hetsim.deviceLook(row.track.device));
          pen.fillRect(left - 18, row.y + tallness / 2 - 6, 12, 12);
        }
      }

      pen.save();
      pen.beginPath(); pen.rect(left, 0, wide - left, tall); pen.clip();
      let drawn = 0;
      for (const row of rows) drawn += paintRow(pen, row, tasks, wide, left, family);
      state.drawn = drawn;
      // The path from task to task.
      if (state.path && state.request < 0 && onPath.length && onPath.length < 4000) {
        pen.strokeStyle = ink;
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
      for (const [mark, dash] of [[state.hover, [3, 2]], [state.at, []]]) {
        if (mark < 0) continue;
        for (const row of rows) {
          // A task that holds several links is marked on each.
          for (let one = Math.max(0, mark - 8); one < Math.min(tasks.task.length, mark + 9); one += 1) {
            if (tasks.task[one] !== tasks.task[mark] || ofTrack[tasks.track[one]] !== row) continue;
            const start = x(tasks.start_ns[one]), end = x(tasks.start_ns[one] + tasks.duration_ns[one]);
            pen.strokeStyle = ink;
            pen.lineWidth = 2.5;
            pen.setLineDash(dash);
            pen.strokeRect(start - 1.5, row.y - 1.5, Math.max(end - start, 2) + 3, height(row) + 3);
            pen.setLineDash([]);
            pen.lineWidth = 1;
          }
        }
      }
      pen.restore();
      range.textContent = `${seconds(Math.max(state.from, 0) / 1e9)} to ${seconds(Math.min(state.to, state.picture.open.end) / 1e9)}`;
    }

    function paintRow(pen, row, tasks, wide, left, family) {
      const tallness = height(row);
      let low = 0, high = row.marks.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (row.last[middle] < state.from) low = middle + 1; else high = middle;
      }
      // What is narrower than a pixel is joined with its neighbours of the same rank.
      const open = [null, null, null];
      const scale = (wide - left - 6) / span();
      let drawn = 0;
      const fill = (level, start, end, mark) => {
        pen.globalAlpha = [0.28, 0.95, 1][level];
        pen.fillStyle = markColour(row, tasks, mark);
        pen.fillRect(start, row.y, Math.max(end - start, 0.6), tallness);
        if (level === 2) {
          pen.fillStyle = state.bar;
          pen.fillRect(start, row.y + tallness - 3, Math.max(end - start, 0.6), 3);
        }
        pen.globalAlpha = 1;
        drawn += 1;
      };
      for (let place = low; place < row.marks.length; place += 1) {
        const mark = row.marks[place], begin = tasks.start_ns[mark];
        if (begin > state.to) break;
        const start = left + (begin - state.from) * scale, end = start + tasks.duration_ns[mark] * scale;
        if (end < left) continue;
        const level = rank(tasks, mark);
        if (end - start < 1.5) {
          const run = open[level];
          if (run && start <= run.end + 0.8) { run.end = Math.max(run.end, end); continue; }
          if (run) fill(level, run.start, run.end, run.mark);
          open[level] = { start, end, mark };
          continue;
        }
        const from = Math.max(start, left - 2), to = Math.min(end, wide + 2);
        const space = to - from > 4 ? 0.7 : 0;
        fill(level, from, to - space, mark);
        if (to - from > 30) {
          const name = told(state.picture.labels[tasks.label[mark]], 80), short = name.split(":")[0];
          pen.font = `12px ${family}`;
          const text = pen.measureText(name).width < to - from - 10 ? name : short;
          if (pen.measureText(text).width < to - from - 6) {
            const filled = row.track.kind === "device" ? hetsim.deviceLook(row.track.device).colour : state.link;
            const light = level === 0 ? !hetsim.dark() : bright(filled);
            pen.fillStyle = light ? "#10161c" : "#ffffff";
            pen.textAlign = "left";
            pen.fillText(text, from + 5, row.y + tallness / 2 - (level === 2 ? 1 : 0));
          }
        }
      }
      open.forEach((run, level) => { if (run) fill(level, run.start, run.end, run.mark); });
      return drawn;
    }

    function hit(px, py) {
      const { rows, tasks } = state.picture.open;
      const row = rows.find((one) => py >= one.y - 3 && py < one.y + height(one) + 3);
      if (!row || px < gutter()) return -1;
      const at = ns(px), near = span() / width() * 4;
      let best = -1, gap = near;
      let low = 0, high = row.marks.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (row.last[middle] < at - near) low = middle + 1; else high = middle;
      }
      for (let place = low; place < row.marks.length; place += 1) {
        const mark = row.marks[place], start = tasks.start_ns[mark];
        if (start > at + near) break;
        const away = Math.max(start - at, at - start - tasks.duration_ns[mark], 0);
        if (away <= gap) { gap = away; best = mark; }
        if (away === 0) return mark;
      }
      return best;
    }

    function tell(mark, aloud = false) {
      if (mark < 0) { detail.textContent = state.hint; return; }
      const [name, more] = hetsim.timelineText(state.picture, mark);
      detail.replaceChildren(element("b", { text: name }), ` ${more}`);
      if (aloud) hetsim.say(`${name}: ${more}`);
    }
    function hovered(at, event) {
      const mark = hit(...at);
      if (mark !== state.hover) { state.hover = mark; soon(); }
      tip.hidden = mark < 0;
      if (mark < 0) return;
      const [name, more] = hetsim.timelineText(state.picture, mark);
      tip.replaceChildren(element("b", { text: name }), element("br"), more);
      const bounds = frame.getBoundingClientRect();
      const px = event.clientX - bounds.left, py = event.clientY - bounds.top + frame.scrollTop;
      tip.style.left = `${Math.max(4, Math.min(px + 14, bounds.width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${py + 18}px`;
    }
    function focusOn(mark) {
      const { tasks, rows, ofTrack } = state.picture.open;
      state.at = mark;
      if (mark >= 0) {
        state.row = ofTrack[tasks.track[mark]].place;
        const start = tasks.start_ns[mark], end = start + tasks.duration_ns[mark];
        if (start < state.from || end > state.to) {
          const size = Math.max(span(), (end - start) * 1.5);
          moved((start + end - size) / 2, (start + end + size) / 2);
        }
        const row = rows[state.row];
        if (row.y < frame.scrollTop || row.y + height(row) > frame.scrollTop + frame.clientHeight) {
          frame.scrollTop = row.y - HEAD;
        }
      }
      tell(mark, true);
      soon();
    }
    function step(by) {
      const { rows, tasks } = state.picture.open;
      if (state.row < 0) state.row = rows.findIndex((row) => row.marks.length);
      const row = rows[state.row];
      if (!row || !row.marks.length) return;
      let place = row.marks.indexOf(state.at);
      if (place < 0) {
        place = row.marks.findIndex((mark) => tasks.start_ns[mark] >= state.from);
        place = place < 0 ? row.marks.length - 1 : place;
      } else {
        place = Math.min(Math.max(place + by, 0), row.marks.length - 1);
      }
      focusOn(row.marks[place]);
    }
    function stepRow(by) {
      const { rows, tasks } = state.picture.open;
      const at = state.at >= 0 ? tasks.start_ns[state.at] : state.from;
      let place = state.row < 0 ? (by > 0 ? -1 : rows.length) : state.row;
      do place += by; while (rows[place] && !rows[place].marks.length);
      if (!rows[place]) return;
      state.row = place;
      const near = rows[place].marks.reduce((best, mark) =>
        (Math.abs(tasks.start_ns[mark] - at) < Math.abs(tasks.start_ns[best] - at) ? mark : best));
      focusOn(near);
    }

    const KEYS = {
      ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
      ArrowUp: () => stepRow(-1), ArrowDown: () => stepRow(1),
      "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), _: () => zoom(1.6),
      0: whole, Home: whole, n: () => step(1), p: () => step(-1),
      c: () => { state.path = !state.path; shown(); },
      Enter: () => { if (state.at >= 0) pick(state.picture.open.tasks.request[state.at]); },
      Escape: () => { state.at = -1; state.row = -1; pick(-1); tell(-1); },
    };
    canvas.addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    canvas.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        event.preventDefault();
        pan(sideways / 900);
      } else if (event.ctrlKey || event.metaKey || document.activeElement === canvas) {
        event.preventDefault();
        zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY)) / 400), ns(hetsim.placeOn(canvas, event)[0]));
      }
    }, { passive: false });
    hetsim.pointing(canvas, {
      near: 3,
      travel: (dx) => Math.abs(dx),
      captures: (event) => event.pointerType === "mouse",
      hover: hovered,
      drag: (dx) => {
        tip.hidden = true;
        moved(state.from - dx / (width() - gutter()) * span(), state.to - dx / (width() - gutter()) * span());
      },
      pinch: ([was], [now], [other]) => {
        const before = Math.abs(was - other), after = Math.abs(now - other);
        if (before > 4 && after > 4) zoom(before / after, ns((now + other) / 2));
      },
      click: (at) => focusOn(hit(...at)),
    });
    canvas.addEventListener("pointerleave", () => { state.hover = -1; tip.hidden = true; soon(); });

    function pick(request) {
      state.request = request;
      requests.value = String(request);
      tabled();
      shown();
    }
    function shown() {
      path.setAttribute("aria-pressed", String(state.path));
      soon();
    }
    function tabled() {
      const { rows, marked, count } = hetsim.timelineRows(state.picture, state.request);
      const whose = state.request < 0 ? "" : `, request ${state.request + 1}`;
      const was = tables.querySelector("details");
      const made = hetsim.table({ title: `Tasks of ${state.picture.name}${whose}`,
        columns: [{ name: "start", figures: true }, "on", "task", { name: "takes", figures: true },
          { name: "moves", figures: true }, { name: "request", figures: true }, "critical path"],
        rows, marked, open: was ? was.open : false });
      if (count > rows.length) made.querySelector("small").textContent = `the first 1000 of ${count}`;
      tables.replaceChildren(made);
    }
    async function choose(picture) {
      await hetsim.timelineOpened(picture);
      const tasks = picture.open.tasks;
      const there = [...new Set(tasks.request)].filter((one) => one >= 0).sort((a, b) => a - b);
      // Of many requests the path is that of the last to end: shown where it is asked for.
      Object.assign(state, { picture, row: -1, at: -1, hover: -1, request: -1, path: there.length < 2 });
      requests.replaceChildren(element("option", { value: -1, text: "all" }),
        ...there.slice(0, 2000).map((one) => element("option", { value: one, text: String(one + 1) })));
      requests.hidden = requestsLabel.hidden = there.length < 2;
      path.hidden = !picture.open.onPath.length;
      const left = island.pictures.left_out && island.pictures.left_out.length
        ? `Not drawn for want of room: the timelines of ${island.pictures.left_out.map((one) => told(one, 60)).join(", ")}.` : "";
      const idle = picture.open.idle.length
        ? `Idle all along: ${picture.open.idle.map((one) => told(one, 40)).join(", ")}.` : "";
      note.textContent = [idle, picture.cut && `${picture.cut}.`, left].filter(Boolean).join(" ");
      note.hidden = !note.textContent;
      const used = picture.devices.filter((name) => picture.open.rows.some((row) => row.track.device === name));
      key.replaceChildren(hetsim.legend(used.map((name) => [name, hetsim.deviceLook(name)])));
      const clock = picture.clock === "wall" ? "wall clock" : "virtual clock";
      state.hint = picture.open.onPath.length && there.length < 2
        ? `${picture.open.steps} steps are on the critical path, underlined; point at a task, or press n.`
        : "Point at a task, or press n, to read what it is.";
      canvas.setAttribute("aria-label",
        told(`Timeline of ${picture.name} by the ${clock}: ${new Set(tasks.task).size} tasks on ${picture.tracks.length} rows`));
      tell(-1);
      tabled();
      whole();
      shown();
    }

    box.append(tools, frame, detail, note, key,
      element("p", { class: "caption nevers", id: "timeline-keys" },
        "Drag or arrow keys move, + and \u2212 or Ctrl and the wheel zoom, 0 shows all; up and down change the row, n and p go "
        + "from task to task, Enter picks a task's request, c the critical path, Escape ends it."),
      tables);
    frame.append(tip);
    new ResizeObserver(soon).observe(frame);
    hetsim.onTheme(box, paint);
    box.timeline = { state, paint, zoom, moved, focusOn };
    return choose(state.picture).then(paint);
  }

  hetsim.view({
    id: "timeline",
    title: "Timeline",
    caption: "What each device and link did, by the virtual clock of the simulation.",
    order: 30,
    shows: (island) => Boolean(island.pictures.timelines && island.pictures.timelines.length),
    draw,
  });
})();
