// What the timeline's view draws: marks by row, what is said of one, and the tasks as a table.
"use strict";
(() => {
  const { seconds, bytes, told } = hetsim;

  // The marks of a timeline by row, in order of their start.
  async function opened(picture) {
    if (picture.open) return picture.open;
    const tasks = await hetsim.unpacked(picture.tasks);
    const path = await hetsim.unpacked(picture.path);
    // A step's place on the path, from 1; 0: it is not on it.
    const placeOf = new Map(path.map((task, place) => [task, place + 1]));
    tasks.critical = tasks.task.map((task) => placeOf.get(task) || 0);
    const rows = picture.tracks.map((track) => ({ track, marks: [], last: [] }));
    tasks.track.forEach((track, mark) => rows[track].marks.push(mark));
    let end = 0;
    for (const row of rows) {
      row.marks.sort((a, b) => tasks.start_ns[a] - tasks.start_ns[b] || a - b);
      let last = 0;
      for (const mark of row.marks) {
        last = Math.max(last, tasks.start_ns[mark] + tasks.duration_ns[mark]);
        row.last.push(last);
      }
      end = Math.max(end, last);
    }
    // Of many devices those that do nothing are named, not drawn.
    const idle = rows.filter((row) => !row.marks.length).map((row) => row.track.device);
    const drawn = idle.length > 3 ? rows.filter((row) => row.marks.length) : rows;
    drawn.forEach((row, place) => { row.place = place; });
    const streams = {};
    for (const row of rows) {
      if (row.track.kind === "device") streams[row.track.device] = (streams[row.track.device] || 0) + 1;
    }
    for (const row of rows) {
      const { kind, device, name } = row.track;
      row.name = kind === "device" && streams[device] === 1 ? device : name;
    }
    const onPath = tasks.critical.map((place, mark) => [place, mark]).filter(([place]) => place)
      .sort((a, b) => a[0] - b[0]).map(([, mark]) => mark);
    picture.open = { tasks, rows: drawn, ofTrack: rows, steps: path.length, idle: drawn === rows ? [] : idle, end: Math.max(end, 1), onPath };
    return picture.open;
  }

  function textOf(picture, mark) {
    const { tasks } = picture.open;
    const names = picture.devices, from = tasks.from[mark], to = tasks.to[mark];
    const on = picture.tracks[tasks.track[mark]].name;
    const start = tasks.start_ns[mark] / 1e9, long = tasks.duration_ns[mark] / 1e9;
    const way = from >= 0 || tasks.nbytes[mark]
      ? `${bytes(tasks.nbytes[mark])} from ${from < 0 ? "the caller" : names[from]} to ${to < 0 ? "the caller" : names[to]} over ${on}`
      : `on ${on}`;
    const whose = picture.requests > 1 && tasks.request[mark] >= 0 ? `, request ${tasks.request[mark] + 1}` : "";
    const path = tasks.critical[mark] ? `, on the critical path (${tasks.critical[mark]} of ${picture.open.steps})` : "";
    return [told(picture.labels[tasks.label[mark]], 160),
      `${seconds(long)} ${way}, from ${seconds(start)} to ${seconds(start + long)}${whose}${path}`
      + (tasks.lost[mark] ? ", lost by a failure" : "")];
  }

  // The tasks of a request, or of all where it is below 0, as rows of a table: the first thousand.
  function rowsOf(picture, request) {
    const { tasks } = picture.open;
    const rows = [], marked = [];
    let before = -1, count = 0, kept = false;
    for (let mark = 0; mark < tasks.task.length; mark += 1) {
      if (tasks.task[mark] === before) {
        if (kept) rows[rows.length - 1][1] += ` + ${picture.tracks[tasks.track[mark]].name}`;
        continue;
      }
      before = tasks.task[mark];
      kept = false;
      if (request >= 0 && tasks.request[mark] !== request) continue;
      count += 1;
      if (rows.length >= 1001) continue;
      kept = true;
      if (tasks.critical[mark]) marked.push(rows.length);
      rows.push([seconds(tasks.start_ns[mark] / 1e9), picture.tracks[tasks.track[mark]].name,
        picture.labels[tasks.label[mark]], seconds(tasks.duration_ns[mark] / 1e9),
        tasks.nbytes[mark] ? bytes(tasks.nbytes[mark]) : "-",
        String(tasks.request[mark] + 1), tasks.critical[mark] ? `step ${tasks.critical[mark]}` : "-"]);
    }
    return { rows, marked, count };
  }

  // How a row looks: as its device does everywhere, or of requests as one of their models.
  const lookOf = (picture, name) => (picture.of === "requests"
    ? hetsim.look(picture.devices.indexOf(name)) : hetsim.deviceLook(name));

  Object.assign(hetsim, { rowLook: lookOf, timelineOpened: opened, timelineText: textOf, timelineRows: rowsOf });
})();
