// The clock with all its events, queues and batchers: hetsim/simulation/clock/rules.py and
// serving/driver.py, for models without priorities, turns in memory, failures or scaling.
"use strict";
(() => {
  const { answers } = hetsim;
  const UNLIMITED = 2 ** 30;

  // A heap of items, the least first.
  class Heap {
    constructor(less) {
      this.less = less;
      this.items = [];
    }
    get first() {
      return this.items[0];
    }
    push(item) {
      const { items, less } = this;
      let hole = items.length;
      items.push(item);
      while (hole > 0) {
        const parent = (hole - 1) >> 1;
        if (less(items[parent], item)) break;
        items[hole] = items[parent];
        hole = parent;
      }
      items[hole] = item;
    }
    pop() {
      const { items, less } = this;
      const found = items[0];
      const item = items.pop();
      if (items.length) {
        let hole = 0;
        for (let child = 1; child < items.length; child = 2 * hole + 1) {
          if (child + 1 < items.length && less(items[child + 1], items[child])) child += 1;
          if (less(item, items[child])) break;
          items[hole] = items[child];
          hole = child;
        }
        items[hole] = item;
      }
      return found;
    }
  }

  // Who waits for whom and what may start: the rules, without times.
  class Rules {
    constructor(structure, starting) {
      this.s = structure;
      this.starting = starting;
      this.devices = structure.streams.map((streams) => ({
        free: streams,
        ready: new Heap((a, b) => a.number < b.number),
        listed: false,
      }));
      this.links = Array.from({ length: structure.links }, () => []);
      this.able = [];
    }
    admit(batch, template) {
      const { s } = this;
      const [begin, after] = [s.first[template], s.first[template + 1]];
      batch.template = template;
      batch.begin = begin;
      batch.left = after - begin;
      batch.waits = s.waits.slice(begin, after);
      batch.behind = new Int32Array(after - begin);
      batch.turn = s.streams.map((_, d) => s.issue_at[template * s.streams.length + d]);
      batch.turn.forEach((at, d) => {
        if (at < s.issue_at[template * s.streams.length + d + 1]) {
          if (batch.waits[s.issue[at] - begin] === 0) this.offer(batch, d);
        }
      });
      for (let at = s.root_at[template]; at < s.root_at[template + 1]; at++) {
        this.queue(batch, s.roots[at]);
      }
      return batch.left === 0;
    }
    end(batch, task) {
      const { s } = this;
      const device = s.device[task];
      if (device >= 0) {
        this.devices[device].free += 1;
        if (this.devices[device].ready.items.length) this.note(device);
      } else {
        this.release(task);
      }
      for (let at = s.successor_at[task]; at < s.successor_at[task + 1]; at++) {
        const follower = s.successors[at];
        batch.waits[follower - batch.begin] -= 1;
        if (batch.waits[follower - batch.begin] > 0) continue;
        const on = s.device[follower];
        if (on < 0) this.queue(batch, follower);
        else if (s.issue[batch.turn[on]] === follower) this.offer(batch, on);
      }
      batch.left -= 1;
      return batch.left === 0;
    }
    starts() {
      const { s } = this;
      for (const d of this.able) {
        const device = this.devices[d];
        device.listed = false;
        while (device.free > 0 && device.ready.items.length) {
          const batch = device.ready.first;
          const at = batch.turn[d];
          batch.turn[d] = at + 1;
          const last = s.issue_at[batch.template * s.streams.length + d + 1];
          if (at + 1 === last || batch.waits[s.issue[at + 1] - batch.begin] > 0) device.ready.pop();
          device.free -= 1;
          this.starting.push(batch, s.issue[at]);
        }
      }
      this.able = [];
    }
    note(device) {
      if (this.devices[device].listed) return;
      this.devices[device].listed = true;
      this.able.push(device);
    }
    offer(batch, device) {
      this.devices[device].ready.push(batch);
      this.note(device);
    }
    queue(batch, task) {
      let behind = 0;
      for (let at = this.s.held_at[task]; at < this.s.held_at[task + 1]; at++) {
        const line = this.links[this.s.held[at]];
        if (line.length) behind += 1;
        line.push([batch, task]);
      }
      batch.behind[task - batch.begin] = behind;
      if (!behind) this.starting.push(batch, task);
    }
    release(task) {
      for (let at = this.s.held_at[task]; at < this.s.held_at[task + 1]; at++) {
        const line = this.links[this.s.held[at]];
        line.shift();
        if (!line.length) continue;
        const [batch, next] = line[0];
        batch.behind[next - batch.begin] -= 1;
        if (batch.behind[next - batch.begin] === 0) this.starting.push(batch, next);
      }
    }
  }

  const sooner = (a, b) =>
    a.time !== b.time ? a.time < b.time
    : a.batch.number !== b.batch.number ? a.batch.number < b.batch.number
    : a.task < b.task;

  // Seconds that one request takes alone, with these durations of its tasks.
  answers.alone = (structure, template, duration) => {
    const starting = [];
    const rules = new Rules(structure, starting);
    const events = new Heap(sooner);
    const batch = { number: 0 };
    let now = 0;
    let over = rules.admit(batch, template);
    const launch = () => {
      for (let k = 0; k < starting.length; k += 2) {
        events.push({ time: now + duration[starting[k + 1]], batch, task: starting[k + 1] });
      }
      starting.length = 0;
    };
    launch();
    while (!over) {
      if (events.first && events.first.time === now) over = rules.end(batch, events.pop().task);
      else if (rules.able.length) rules.starts();
      else if (events.first) now = events.first.time;
      else return NaN;
      launch();
    }
    return now;
  };

  // What becomes of requests in order of arrival, with each model's queue and batcher.
  answers.played = (data, arrival, ofModel, variant) => {
    const { structure, tasks } = data;
    const { SERVED, FULL, EXPIRED } = answers.became;
    const count = arrival.length;
    const found = {
      left: new Float64Array(count).fill(NaN),
      finish: new Float64Array(count).fill(NaN),
      instance: new Int32Array(count).fill(-1),
      size: new Int32Array(count),
      why: new Int8Array(count).fill(-1),
      fresh: new Uint8Array(count),
      ran: new Float64Array(structure.first.length - 1),
      now: 0,
    };
    const starting = [];
    const rules = new Rules(structure, starting);
    const events = new Heap(sooner);
    const models = data.models.map((one) => ({
      ...one,
      line: [],
      head: 0,
      inFlight: new Int32Array(one.instances),
      free: new Float64Array(one.instances).fill(-Infinity),
      spare: one.limits.reduce((total, limit) => total + (limit || UNLIMITED), 0),
      idle: one.instances,
      turn: 0,
      timer: Infinity,
      dirty: false,
    }));
    const waiting = (model) => model.line.length - model.head;
    let soonest = Infinity;
    let admitted = 0;
    let now = -Infinity;

    const choose = (model, which, size) => {
      const takes = (k) => model.inFlight[k] < (model.limits[k] || UNLIMITED);
      if (model.routing === "round_robin") {
        while (!takes(model.cycle[model.turn])) model.turn = (model.turn + 1) % model.cycle.length;
        const k = model.cycle[model.turn];
        model.turn = (model.turn + 1) % model.cycle.length;
        return k;
      }
      let best = -1;
      let least = Infinity;
      for (let k = 0; k < model.instances; k++) {
        if (!takes(k)) continue;
        const t = model.table[(which * model.instances + k) * model.largest + size - 1];
        const weighed =
          model.routing === "shortest_queue"
            ? model.inFlight[k]
            : Math.max(now, model.free[k]) + tasks.alone[t];
        if (best < 0 || weighed < least) [best, least] = [k, weighed];
      }
      return best;
    };
    const leave = (batch) => {
      const { model, instance } = batch;
      model.inFlight[instance] -= 1;
      if (model.inFlight[instance] === 0) {
        model.idle += 1;
        model.free[instance] = now;
      }
      if (model.limits[instance] > 0) model.spare += 1;
      for (const r of batch.requests) {
        found.finish[r] = now;
        found.why[r] = SERVED;
      }
    };
    const send = (model, requests) => {
      const which = variant[requests[0]];
      const instance = choose(model, which, requests.length);
      const size = requests.length;
      const t = model.table[(which * model.instances + instance) * model.largest + size - 1];
      if (model.inFlight[instance] === 0) model.idle -= 1;
      model.inFlight[instance] += 1;
      if (model.limits[instance] > 0) model.spare -= 1;
      if (model.routing === "least_finish") {
        model.free[instance] = Math.max(now, model.free[instance]) + tasks.load[t];
      }
      found.ran[t] += 1;
      for (const r of requests) {
        found.left[r] = now;
        found.instance[r] = instance;
        found.size[r] = size;
      }
      const batch = { number: admitted, requests, model, instance };
      admitted += 1;
      if (rules.admit(batch, t)) leave(batch);
    };
    const mark = (model) => {
      model.dirty = true;
    };
    const come = (r) => {
      const model = models[ofModel[r]];
      found.fresh[r] = waiting(model) === 0 && model.idle > 0 ? 1 : 0;
      const full = waiting(model) >= model.spare;
      if (model.room >= 0 && waiting(model) >= model.room && (model.room > 0 || full)) {
        found.why[r] = FULL;
        found.fresh[r] = 0;
      } else if (!model.gated) {
        send(model, [r]);
      } else {
        model.line.push(r);
        mark(model);
      }
    };
    // Walk over what waits: what waited too long is rejected; how many are to go now.
    const sized = (model) => {
      for (const justAfter of [false, true]) {
        while (waiting(model)) {
          const deadline = arrival[model.line[model.head]] + model.timeout_s;
          if (!(deadline < now || (justAfter && deadline === now))) break;
          found.why[model.line[model.head]] = EXPIRED;
          found.left[model.line[model.head]] = now;
          model.head += 1;
        }
        let [pending, best, closed] = [0, 0, false];
        let [oldest, closest] = [Infinity, Infinity];
        for (let k = model.head; k < model.line.length; k++) {
          const r = model.line[k];
          if (
            pending === model.largest ||
            (pending > 0 && variant[r] !== variant[model.line[model.head]])
          ) {
            closed = true;
            break;
          }
          pending += 1;
          if (model.preferred.includes(pending)) best = pending;
          oldest = Math.min(oldest, arrival[r]);
          closest = Math.min(closest, arrival[r] + model.timeout_s);
        }
        const waited = model.delay_s > 0 && now >= oldest + model.delay_s;
        let size = 0;
        if (best > 0 && !waited) size = best;
        else if (closed || waited || model.delay_s === 0) size = pending;
        if (size > 0 || !waiting(model)) return size;
        const until = Math.min(oldest + model.delay_s, closest);
        if (until > now) {
          model.timer = until;
          soonest = Math.min(soonest, until);
          return 0;
        }
      }
      return 0;
    };
    const look = (model) => {
      const size = model.spare > 0 && waiting(model) > 0 ? sized(model) : 0;
      if (size === 0) {
        model.dirty = false;
        return;
      }
      const requests = model.line.slice(model.head, model.head + size);
      model.head += size;
      send(model, requests);
    };

    let taken = 0;
    for (;;) {
      for (;;) {
        if (events.first && events.first.time === now) {
          const { batch, task } = events.pop();
          if (rules.end(batch, task)) {
            leave(batch);
            if (waiting(batch.model)) mark(batch.model);
          }
        } else if (taken < count && arrival[taken] === now) {
          come(taken);
          taken += 1;
        } else {
          const model = models.find((one) => one.dirty);
          if (model) look(model);
          else if (rules.able.length) rules.starts();
          else break;
        }
        for (let k = 0; k < starting.length; k += 2) {
          const task = starting[k + 1];
          events.push({ time: now + tasks.seconds[task], batch: starting[k], task });
        }
        starting.length = 0;
      }
      const next = events.first ? events.first.time : Infinity;
      const until = Math.min(next, soonest, taken < count ? arrival[taken] : Infinity);
      if (until === Infinity) break;
      now = until;
      if (soonest === now) {
        soonest = Infinity;
        for (const one of models) {
          if (one.timer <= now) {
            one.timer = Infinity;
            mark(one);
          }
          soonest = Math.min(soonest, one.timer);
        }
      }
    }
    found.now = now;
    return found;
  };
})();
