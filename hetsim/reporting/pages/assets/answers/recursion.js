// Requests one after another, and of each task after task: hetsim/simulation/recursion/kernel.py
// and serving/gates.py, addition by addition, so that times are equal to the last bit.
"use strict";
(() => {
  const { answers } = hetsim;
  const ALONE = 0;
  const FREE = 1;
  const LINKS = 2;
  const SERVED = 0;
  const FULL = 1;
  const EXPIRED = 2;
  answers.became = { SERVED, FULL, EXPIRED };

  // What requests leave behind on devices and links.
  class Streams {
    constructor(tasks) {
      const resources = tasks.stream_at.length - 1;
      this.free = new Float64Array(tasks.stream_at[resources]).fill(-Infinity);
      this.head = new Int32Array(resources);
      this.mark = new Float64Array(resources).fill(-Infinity);
      this.started = new Float64Array(tasks.duration.length);
      this.ended = new Float64Array(tasks.duration.length);
      this.last = 0;
    }
  }

  // Play a request of template t; whether nothing later could overtake it.
  const play = (tasks, streams, t, came) => {
    const { free, head, mark, started, ended } = streams;
    let last = came;
    for (let i = tasks.first[t]; i < tasks.first[t + 1]; i++) {
      let ready = came;
      for (let k = tasks.waits_at[i]; k < tasks.waits_at[i + 1]; k++) {
        const before = ended[tasks.waits[k]];
        if (before > ready) ready = before;
      }
      const kind = tasks.kind[i];
      let start = ready;
      let end = 0;
      if (kind === ALONE) {
        const s = tasks.slot[i];
        if (free[s] > start) start = free[s];
        end = start + tasks.duration[i];
        free[s] = end;
      } else if (kind === FREE) {
        end = start + tasks.duration[i];
      } else if (kind === LINKS) {
        for (let k = tasks.held_at[i]; k < tasks.held_at[i + 1]; k++) {
          const link = tasks.held[k];
          const clear = free[tasks.stream_at[link]];
          if (clear > start) start = clear;
          if (tasks.watched[link]) {
            const before = mark[link];
            if (ready < before) return false;
            if (ready === before && (tasks.instant || tasks.strict[i])) return false;
            mark[link] = ready;
          }
        }
        end = start + tasks.duration[i];
        for (let k = tasks.held_at[i]; k < tasks.held_at[i + 1]; k++) {
          free[tasks.stream_at[tasks.held[k]]] = end;
        }
      } else {
        const device = tasks.held[tasks.held_at[i]];
        const s = tasks.stream_at[device];
        const many = tasks.stream_at[device + 1] - s;
        let hole = head[device];
        const clear = free[s + hole];
        if (tasks.previous[i] >= 0 && started[tasks.previous[i]] > ready) {
          ready = started[tasks.previous[i]];
        }
        if (tasks.watched[device]) {
          const before = mark[device];
          if (ready < before || (ready === before && tasks.instant)) return false;
          if (ready > clear || (ready === clear && tasks.instant)) mark[device] = ready;
        }
        start = clear > ready ? clear : ready;
        end = start + tasks.duration[i];
        head[device] = hole + 1 < many ? hole + 1 : 0;
        for (let k = 1; k < many; k++) {
          const below = hole > 0 ? hole - 1 : many - 1;
          if (free[s + below] <= end) break;
          free[s + hole] = free[s + below];
          hole = below;
        }
        free[s + hole] = end;
        started[i] = start;
      }
      ended[i] = end;
      if (end > last) last = end;
    }
    streams.last = last;
    return true;
  };

  // When requests inside end, in order.
  class Queue {
    constructor() {
      this.ends = [];
      this.head = 0;
    }
    get size() {
      return this.ends.length - this.head;
    }
    get next() {
      return this.head < this.ends.length ? this.ends[this.head] : Infinity;
    }
    settle(now) {
      while (this.next <= now) this.head++;
    }
  }

  // What becomes of the requests of one model, in order of arrival; null where only a heap of
  // events knows. `model`: instances, table, limits, routing, gated, room, timeout_s, cycle.
  answers.passage = (tasks, model, arrival, variant) => {
    const count = arrival.length;
    const streams = new Streams(tasks);
    const found = {
      left: new Float64Array(count),
      finish: new Float64Array(count).fill(NaN),
      instance: new Int32Array(count).fill(-1),
      why: new Int8Array(count),
      fresh: new Uint8Array(count),
      template: new Int32Array(count).fill(-1),
    };
    const through = model.gated || (model.routing !== "round_robin" && model.instances > 1);
    const ok = through
      ? gates(tasks, streams, model, arrival, variant, found)
      : dealt(tasks, streams, model, arrival, variant, found);
    return ok ? found : null;
  };

  // Whether floats tell every end from its start.
  const tellsApart = (tasks, finish) => {
    let latest = 0;
    for (const one of finish) if (one > latest) latest = one;
    return answers.spacing(latest) <= tasks.shortest_s;
  };

  const dealt = (tasks, streams, model, arrival, variant, found) => {
    const busy = new Float64Array(model.instances).fill(-Infinity);
    let tied = false;
    for (let r = 0; r < arrival.length; r++) {
      const k = model.instances === 1 ? 0 : model.cycle[r % model.cycle.length];
      const t = model.table[variant[r] * model.instances + k];
      if (!play(tasks, streams, t, arrival[r])) return false;
      for (let j = 0; j < model.instances; j++) {
        if (busy[j] <= arrival[r]) found.fresh[r] = 1;
        if (busy[j] === arrival[r]) tied = true;
      }
      found.left[r] = arrival[r];
      found.finish[r] = streams.last;
      found.instance[r] = k;
      found.template[r] = t;
      if (streams.last > busy[k]) busy[k] = streams.last;
    }
    const apart = tellsApart(tasks, found.finish);
    if (tied && !apart) return false;
    return !tasks.doubt || tasks.instant || apart;
  };

  const gates = (tasks, streams, model, arrival, variant, found) => {
    const { instances, limits, timeout_s: timeout } = model;
    const inside = Array.from({ length: instances }, () => new Queue());
    const waiting = new Queue();
    const free = new Float64Array(instances).fill(-Infinity);
    const last = new Float64Array(instances).fill(-Infinity);
    let turn = 0;
    let left = -Infinity;
    const takes = (k) => limits[k] === 0 || inside[k].size < limits[k];
    const ready = (k, now) => (inside[k].size > 0 && free[k] > now ? free[k] : now);
    const opening = (now) => {
      let first = Infinity;
      for (let k = 0; k < instances; k++) {
        if (takes(k)) return now;
        if (inside[k].next < first) first = inside[k].next;
      }
      return first;
    };
    const chosen = (which, now) => {
      if (model.routing === "round_robin") {
        while (!takes(model.cycle[turn])) turn = (turn + 1) % model.cycle.length;
        const k = model.cycle[turn];
        turn = (turn + 1) % model.cycle.length;
        return k;
      }
      let best = -1;
      let least = Infinity;
      for (let k = 0; k < instances; k++) {
        if (!takes(k)) continue;
        if (model.routing === "shortest_queue") {
          if (best < 0 || inside[k].size < inside[best].size) best = k;
        } else {
          const end = ready(k, now) + tasks.alone[model.table[which * instances + k]];
          if (best < 0 || end < least) [best, least] = [k, end];
        }
      }
      return best;
    };
    for (let r = 0; r < arrival.length; r++) {
      const came = arrival[r];
      let idle = false;
      for (const one of inside) {
        if (tasks.instant && one.next === came) return false;
      }
      for (const one of inside) {
        one.settle(came);
        if (one.size === 0) idle = true;
      }
      found.left[r] = NaN;
      found.fresh[r] = idle && (!model.gated || left < came) ? 1 : 0;
      let now = came;
      if (model.gated) {
        if (model.room >= 0) {
          while (waiting.next < came) waiting.head++;
          if (waiting.size >= model.room) {
            found.why[r] = FULL;
            found.fresh[r] = 0;
            continue;
          }
        }
        if (left > came) now = left;
        let expired = came + timeout < now;
        if (!expired) {
          for (const one of inside) one.settle(now);
          now = opening(now);
          expired = came + timeout < now;
        }
        left = now;
        found.left[r] = now;
        if (model.room >= 0) waiting.ends.push(now);
        if (expired) {
          found.why[r] = EXPIRED;
          continue;
        }
        for (const one of inside) one.settle(now);
      }
      const k = chosen(variant[r], now);
      const t = model.table[variant[r] * instances + k];
      if (model.routing === "least_finish") free[k] = ready(k, now) + tasks.load[t];
      if (!play(tasks, streams, t, now)) return false;
      if (tasks.first[t] < tasks.first[t + 1] && streams.last <= now) return false;
      if (inside[k].size > 0 && streams.last < last[k]) return false;
      last[k] = streams.last;
      inside[k].ends.push(streams.last);
      found.left[r] = now;
      found.finish[r] = streams.last;
      found.instance[r] = k;
      found.template[r] = t;
    }
    return Boolean(tasks.instant) || tellsApart(tasks, found.finish);
  };
})();
