// The timeline: devices and links as rows, zoomed and panned, one request picked out, the critical
// path shown. A canvas of our own: tens of thousands of tasks stay quick.
"use strict";
(() => {
  const { element, seconds, told, button } = hetsim;

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
    tools.append(...hetsim.planChoice("timeline-plan", pictures, choose, pictures[0].of === "requests" ? "clock" : "plan"));
    const requests = element("select", { id: "timeline-request", onchange: () => pick(Number(requests.value)) });
    const requestsLabel = element("label", { for: "timeline-request", text: "request" });
    tools.append(requestsLabel, requests);
    const path = button("Critical path", () => { state.path = !state.path; shown(); }, { "aria-pressed": "true" });
    tools.append(path,
      button("\u2212", () => zoom(1.6), { "aria-label": "Zoom out" }),
      button("+", () => zoom(1 / 1.6), { "aria-label": "Zoom in" }),
      button("Whole", whole), element("span", { class: "gap" }), range);

    const drawing = hetsim.timelineCanvas(frame, canvas, state);
    const { hit, width, gutter, span, ns, height } = drawing;
    function paint() {
      drawing.paint();
      range.textContent = `${seconds(Math.max(state.from, 0) / 1e9)} to ${seconds(Math.min(state.to, state.picture.open.end) / 1e9)}`;
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
          frame.scrollTop = row.y - drawing.head;
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
      const columns = [{ name: "start", figures: true }, "on", "task", { name: "takes", figures: true },
        { name: "moves", figures: true }, { name: "request", figures: true }, "critical path"];
      // What no row has is no column.
      const kept = columns.map((_, at) => ![4, 6].includes(at) || rows.some((row) => row[at] !== "-"));
      const made = hetsim.table({ title: `Tasks of ${state.picture.name}${whose}`,
        columns: columns.filter((_, at) => kept[at]), rows: rows.map((row) => row.filter((_, at) => kept[at])),
        marked, open: was ? was.open : false });
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
      key.replaceChildren(hetsim.legend(used.map((name) => [name, hetsim.rowLook(picture, name)])));
      const clock = picture.clock === "wall" ? "wall clock" : "virtual clock";
      state.hint = picture.open.onPath.length && there.length < 2
        ? `${hetsim.count(picture.open.steps, "step is", "steps are")} on the critical path, underlined; point at a task, or press n.`
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
        + `from task to task, Enter picks a task's request, ${pictures.some((one) => one.of !== "requests") ? "c the critical path, " : ""}Escape ends it.`),
      tables);
    frame.append(tip);
    new ResizeObserver(soon).observe(frame);
    hetsim.onTheme(box, paint);
    box.timeline = { state, paint, moved, focusOn };
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
