// The cheapest platform at other prices: hetsim/recommending/vectors.py over what is known of
// each platform, which does not depend on what it costs.
"use strict";
(() => {
  const { answers } = hetsim;
  const MOST = 400_000;

  // A price with at most nine decimals as a whole number of the unit, exactly.
  answers.whole = (price) => {
    const [ones, parts = ""] = price.toFixed(9).split(".");
    return Number(ones) * 1e9 + Number(parts);
  };

  // Vectors up to a cost that no bound excludes, in order; null where there are too many.
  const listed = (data, costs, cap) => {
    const { kinds, tests } = data;
    const found = [];
    let looked = 0;
    const most = tests.map(({ capacity }) =>
      kinds.map((_, k) => Math.max(0, ...capacity.slice(k))).concat(0));
    const walk = (k, vector, cost, devices, slots, has) => {
      looked += 1;
      if (looked > MOST) return;
      if (cost > cap) return;
      for (let t = 0; t < tests.length; t++) {
        if (has[t] + most[t][k] * devices < tests[t].edge * (1 - 1e-12)) return;
      }
      if (k === kinds.length) {
        if (vector.some((n) => n) && !tests.some((test, t) => has[t] < test.edge)) {
          found.push({ vector: [...vector], cost, devices: data.max_devices - devices });
        }
        return;
      }
      const kind = kinds[k];
      if (kind.slots) {
        walk(k + 1, [...vector, 0], cost, devices, slots, has);
        return;
      }
      let room = Math.min(kind.most, devices);
      if (kind.in_slot) room = Math.min(room, slots);
      for (let n = 0; n <= room; n++) {
        walk(k + 1, [...vector, n], cost + n * costs[k], devices - n, slots - (kind.in_slot ? n : 0),
          has.map((one, t) => one + n * tests[t].capacity[k]));
      }
    };
    const none = tests.map(() => 0);
    walk(0, [], 0, data.max_devices, 0, none);
    // Hosts count toward no number of devices, and there is one at most.
    kinds.forEach((kind, host) => {
      if (!kind.slots) return;
      const before = found.length;
      walk(0, [], costs[host], data.max_devices, kind.slots, tests.map((test) => test.capacity[host]));
      for (const one of found.slice(before)) one.vector[host] += 1;
    });
    if (looked > MOST) return null;
    const order = (a, b) => {
      if (a.cost !== b.cost) return a.cost - b.cost;
      if (a.devices !== b.devices) return a.devices - b.devices;
      const at = a.vector.findIndex((n, k) => n !== b.vector[k]);
      return at < 0 ? 0 : a.vector[at] - b.vector[at];
    };
    return found.sort(order);
  };

  const named = (data, vector) =>
    Object.fromEntries(data.kinds.flatMap((kind, k) => (vector[k] ? [[kind.name, vector[k]]] : [])));

  // The answer at prices of one of each kind, whole numbers: {counts, cost}, or {unknown: counts}
  // where only a search says whether that platform, which costs less, meets; null without end.
  answers.cheapest = (data, costs) => {
    const known = new Map(data.tried.map((one) => [one.vector.join(), one]));
    const costOf = (vector) => vector.reduce((total, n, k) => total + n * costs[k], 0);
    const met = data.tried.filter((one) => one.answer === "meets").map((one) => costOf(one.vector));
    const cap = met.length ? Math.min(...met) : Infinity;
    if (!Number.isFinite(cap)) return null;
    const vectors = listed(data, costs, cap);
    if (vectors === null) return null;
    for (const one of vectors) {
      const tried = known.get(one.vector.join());
      const counts = named(data, one.vector);
      const cost = one.cost / 1e9;
      if (!tried) return { unknown: counts, cost };
      if (tried.answer === "undecided") return { unknown: counts, cost };
      if (tried.answer === "meets") return { counts, cost };
    }
    return null;
  };
})();
