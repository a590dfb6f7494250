// What `hetsim simulate` says of requests at a rate: the same requests, by the recursion.
"use strict";
(() => {
  const { answers } = hetsim;
  const NEVER = 1e18;
  const CONFIDENCE = 0.99;
  const STATES = ["stable", "backlogged", "overloaded"];

  // Requests in the order in which they come, at a factor on the rates of the workload, or at
  // one rate where it has one stream.
  const arrivalsOf = (data, setting) => {
    const rates = data.sources.map((one) =>
      setting.rate !== undefined ? setting.rate : one.rate * setting.factor,
    );
    const parts = data.sources.map((one, at) => {
      const by = one.size === 1 ? rates[at] : rates[at] / one.size;
      return one.unit.map((each) => each / by);
    });
    let order = [];
    if (parts.length === 1) {
      order = Array.from(parts[0], (_, k) => [0, k]);
    } else {
      parts.forEach((part, at) => part.forEach((_, k) => order.push([at, k])));
      // Of one time the source that is written first: sorting is stable.
      order.sort((a, b) => parts[a[0]][a[1]] - parts[b[0]][b[1]]);
    }
    let count = Math.min(order.length, data.requests ?? Infinity);
    if (data.duration_s !== null) {
      while (count > 0 && !(parts[order[count - 1][0]][order[count - 1][1]] < data.duration_s)) {
        count -= 1;
      }
    }
    order = order.slice(0, count);
    return {
      rates,
      arrival: Float64Array.from(order, ([at, k]) => parts[at][k]),
      stream: Int32Array.from(order, ([at, k]) => data.sources[at].stream[k]),
      variant: Int32Array.from(order, ([at, k]) => data.sources[at].variant[k]),
    };
  };

  // The island's columns as arrays, once.
  const unpacked = (data) => {
    if (typeof data.sources === "number") {
      data.sources = hetsim.island.pictures.served.sources[data.sources];
    }
    for (const one of data.sources) {
      if (typeof one.unit === "string") {
        one.unit = answers.floats(one.unit);
        for (const name of ["stream", "variant"]) {
          const said = one[name];
          one[name] =
            typeof said === "number"
              ? new Int32Array(one.unit.length).fill(said)
              : answers.wholes(said);
        }
      }
    }
    return data;
  };

  const some = (column, which) => column.filter((_, r) => which[r]);

  const latenciesOf = (arrival, finish, why) => {
    let latest = 0;
    for (let r = 0; r < finish.length; r++) if (finish[r] > latest) latest = finish[r];
    const unit = 256 * answers.spacing(latest);
    return arrival.map((came, r) =>
      why[r] === answers.became.SERVED ? answers.rint((finish[r] - came) / unit) * unit : NEVER,
    );
  };

  const share = (busy, whole) => (whole > 0 ? Math.min(busy / whole, 1) : 0);
  const finite = (seconds) => (seconds >= NEVER ? Infinity : seconds);

  // Model after model by the recursion; null where a later request could overtake an earlier one.
  const recursed = (data, arrival, ofModel, variant) => {
    const { SERVED, EXPIRED } = answers.became;
    const count = arrival.length;
    const found = {
      left: new Float64Array(count),
      finish: new Float64Array(count),
      instance: new Int32Array(count),
      size: new Int32Array(count).fill(1),
      why: new Int8Array(count),
      fresh: new Uint8Array(count),
      ran: new Float64Array(data.tasks.first.length - 1),
      now: arrival[count - 1],
    };
    for (let m = 0; m < data.models.length; m++) {
      const rows = [];
      for (let r = 0; r < count; r++) if (ofModel[r] === m) rows.push(r);
      const mine = answers.passage(
        data.tasks,
        data.models[m],
        Float64Array.from(rows, (r) => arrival[r]),
        Int32Array.from(rows, (r) => variant[r]),
      );
      if (mine === null) return null;
      rows.forEach((r, k) => {
        for (const name of ["left", "finish", "instance", "why", "fresh"]) {
          found[name][r] = mine[name][k];
        }
        if (mine.template[k] >= 0) found.ran[mine.template[k]] += 1;
        const over = found.why[r] === EXPIRED ? found.left[r] : found.finish[r];
        if (found.why[r] <= EXPIRED && over > found.now) found.now = over;
        if (found.why[r] !== SERVED) found.size[r] = 0;
      });
    }
    return found;
  };

  // Play the requests at a setting: {rate | factor, slos: by stream, hourly_usd}. Null where only
  // the clock with all its events knows.
  answers.served = (island, setting) => {
    const data = unpacked(island);
    const { SERVED } = answers.became;
    const { arrival, stream, variant, rates } = arrivalsOf(data, setting);
    const count = arrival.length;
    if (!count) return null;
    const ofModel = stream.map((one) => data.streams[one].model);
    const played =
      (data.recursion && recursed(data, arrival, ofModel, variant)) ||
      answers.played(data, arrival, ofModel, variant);
    const { finish, why, fresh, ran } = played;
    const duration = Math.max(played.now, 0);
    const under = data.models.map((one) => new Float64Array(one.instances));
    for (let r = 0; r < count; r++) {
      if (why[r] !== SERVED) continue;
      under[ofModel[r]][played.instance[r]] += (finish[r] - played.left[r]) / played.size[r];
    }
    const offered = (at, since, until) => {
      const source = data.sources[data.streams[at].source];
      const part = data.streams[at].share;
      let rate = rates[data.streams[at].source];
      if (source.trace_s !== null && part) {
        rate = source.trace_per_s * rate;
        const by = rates[data.streams[at].source];
        if (until > since) {
          const from = Math.max(source.trace_from_s / by, since);
          const came = Math.max((Math.min(source.trace_s / by, until) - from) / (until - since), 0);
          rate = came ? rate * came : 0;
        }
      }
      return part ? rate * part : 0;
    };
    const counted = Uint8Array.from(arrival, (one) => (one >= data.warm_up_s ? 1 : 0));
    const stable = data.models.map((_, m) => {
      const which = arrival.map((_, r) => counted[r] && data.streams[stream[r]].model === m);
      if (!which.includes(1)) return null;
      return answers.stability(
        some(arrival, which), some(finish, which), some(fresh, which),
        (since, until) =>
          data.streams.reduce(
            (total, one, at) => total + (one.model === m ? offered(at, since, until) : 0), 0,
          ),
      );
    });
    const allCame =
      data.comes === "drawn"
        ? false
        : data.comes === "even"
          ? stable.every((one) => one === null || one.state === "stable")
          : arrival[count - 1] >= allOf(data, rates) * (1 - 1e-12);
    let onTime = 0;
    const streams = data.streams.map((one, at) => {
      const mine = arrival.map((_, r) => stream[r] === at);
      const slos = setting.slos ? setting.slos[at] : one.slos;
      const all = latenciesOf(some(arrival, mine), some(finish, mine), some(why, mine));
      const most = slos.length ? Math.max(...slos.map((slo) => slo.latency_s)) : NEVER / 2;
      for (const each of all) if (each <= most) onTime += 1;
      const which = mine.map((yes, r) => yes && counted[r]);
      if (!which.includes(1)) return { name: one.name, requests: 0, percentiles: [], objectives: [] };
      const became = some(why, which);
      const latency = latenciesOf(some(arrival, which), some(finish, which), became);
      const sample = answers.sample(latency, some(fresh, which));
      const kept = stable[one.model];
      const answered = latency.filter((_, r) => became[r] === SERVED);
      const asked = [...new Set([50, 90, 95, 99, 99.9, ...slos.map((slo) => slo.percentile)])];
      const percentiles = asked
        .sort((a, b) => a - b)
        .map((percentile) => sample.within(percentile, 0.95))
        .map((found) => ({
          ...found,
          latency_s: finite(found.latency_s),
          low_s: finite(found.low_s),
          high_s: finite(found.high_s),
          enough: found.enough && found.high_s < NEVER,
        }));
      return {
        name: one.name,
        requests: latency.length,
        answered: answered.length,
        latency_mean_s: answered.length ? answers.sum(answered) / answered.length : NaN,
        percentiles: kept && kept.state === "overloaded" ? [] : percentiles,
        objectives: slos.map((slo) => {
          const said = allCame ? sample.verdictOfAll(slo) : sample.verdict(slo, CONFIDENCE);
          if (kept && kept.state === "overloaded" && said.answer === "undecided") {
            const carried = answered.length < latency.length ? kept.carried / kept.offered : 0;
            if (said.late > 1 - slo.share && carried < slo.share) said.answer = "misses";
          }
          return { ...slo, on_time: said.on_time, verdict: said.answer };
        }),
      };
    });
    const busy = [new Float64Array(data.devices.length), new Float64Array(data.links.length)];
    ran.forEach((times, t) => {
      data.spent.devices[t].forEach((seconds, k) => (busy[0][k] += times * seconds));
      data.spent.links[t].forEach((seconds, k) => (busy[1][k] += times * seconds));
    });
    const uses = [];
    data.devices.forEach((one, k) =>
      uses.push([`device ${one.name}`, share(busy[0][k], duration * one.streams)]),
    );
    data.links.forEach((name, k) => uses.push([`link ${name}`, share(busy[1][k], duration)]));
    data.models.forEach((one, m) => {
      if (!one.limits.every((limit) => limit)) return;
      const used = one.limits.map((limit, k) => share(under[m][k], duration * limit));
      uses.push([`instances of ${one.name}`, used.reduce((a, b) => a + b, 0) / used.length]);
    });
    let bottleneck = uses[0];
    for (const one of uses) if (one[1] > bottleneck[1]) bottleneck = one;
    const states = stable.filter((one) => one !== null).map((one) => one.state);
    const found = {
      requests: count,
      duration_s: duration,
      state: states.reduce((a, b) => (STATES.indexOf(b) > STATES.indexOf(a) ? b : a), "stable"),
      bottleneck: bottleneck[0],
      on_time: onTime,
      uses,
      streams,
    };
    if (setting.hourly_usd !== undefined) {
      const usd = (setting.hourly_usd * duration) / 3600;
      found.usd_per_1000 = onTime ? (1000 * (usd + 0)) / onTime : null;
    }
    return found;
  };

  const allOf = (data, rates) =>
    Math.max(
      ...data.sources.map((one, at) => (one.trace_s === null ? 0 : one.trace_s / rates[at])),
    );
})();
