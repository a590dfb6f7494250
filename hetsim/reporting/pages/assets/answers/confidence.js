// What a run says of its latencies: hetsim/confidence and service/stability.py, step by step.
// Percentiles and counts are equal to the command line's; what is added up of batches may differ
// in its last bit, as matrices are multiplied in other orders elsewhere.
"use strict";
(() => {
  const { answers } = hetsim;
  const BATCHES = 32;
  const ENOUGH_LATE = 50;
  const EQUAL_FROM = 4 * ENOUGH_LATE;
  const MOST_ALIKE = 0.4;

  // How many of an ascending column are below a value, or at most it.
  const below = (column, value, orAt = false) => {
    let [low, high] = [0, column.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] < value || (orAt && column[middle] === value)) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const upTo = (column, value) => below(column, value, true);

  const cutsOf = (begins, requests) => {
    const inner = begins.filter((one) => one > 0);
    const cuts = [0];
    for (let k = 1; k < BATCHES; k++) {
      const at = below(inner, Math.floor((k * requests) / BATCHES));
      if (at < inner.length && inner[at] !== cuts[cuts.length - 1]) cuts.push(inner[at]);
    }
    return [...cuts, requests];
  };

  const unbent = (reach, bend) =>
    Math.abs(bend) < 1e-9 ? reach : (Math.cbrt(1 + 3 * bend * reach) - 1) / bend;

  // The share of requests that `late` tells of, ascending, and how far it may be off.
  const lateShare = (when, begins, requests) => {
    const each = [];
    let before = -1;
    for (const one of when) {
      const period = upTo(begins, one);
      if (each.length && period === before) each[each.length - 1] += 1;
      else each.push(1);
      before = period;
    }
    const share = requests ? when.length / requests : 0;
    const found = { share, requests, late: when.length, periods: each.length };
    const cuts = cutsOf(begins, requests);
    const others = cuts.length - 2;
    if (others < 1) return { ...found, error: Infinity, freedom: 0, skewness: 0, alike: 0 };
    const places = cuts.map((cut) => below(when, cut));
    const deviations = [];
    for (let k = 0; k + 1 < cuts.length; k++) {
      deviations.push(places[k + 1] - places[k] - share * (cuts[k + 1] - cuts[k]));
    }
    const squares = answers.dot(deviations, deviations);
    const error = Math.sqrt((squares * (others + 1)) / others) / requests;
    const alike = squares ? answers.dot(deviations.slice(1), deviations) / squares : 0;
    const square = each.map((one) => one * one);
    const total = answers.sum(square);
    const tail = total ? answers.dot(square, square) / total ** 2 : 0;
    const spread = total ** 1.5;
    return {
      ...found,
      error,
      alike,
      freedom: 2 / (2 / others + tail),
      skewness: spread ? answers.dot(square, each) / spread : 0,
    };
  };
  const enough = (late) => late.periods >= ENOUGH_LATE && late.alike <= MOST_ALIKE;
  const reachOf = (late, confidence, held) => {
    if (!late.freedom) return [Infinity, Infinity];
    let follows = late.skewness;
    if (held && late.share) follows -= late.error / late.share;
    const bend = (3 * follows - late.skewness) / 6;
    const shift = follows / 2 - bend;
    const reach = answers.studentQuantile(late.freedom, 0.5 + confidence / 2);
    return [
      unbent(reach - shift, bend) * late.error,
      -unbent(-reach - shift, bend) * late.error,
    ];
  };

  // Latencies of one stream with what is asked of them again and again.
  answers.sample = (latency, fresh) => {
    const count = latency.length;
    const ordered = Float64Array.from(latency).sort();
    const begins = [];
    fresh.forEach((one, r) => one && begins.push(r));
    const place = (share) =>
      Math.min(Math.max(Math.ceil(count * (1 - share)) - 1, 0), count - 1);
    const beyond = (share) => ordered[place(share)];
    const whenBeyond = (limit) => {
      const when = [];
      for (let r = 0; r < count; r++) if (latency[r] > limit) when.push(r);
      return when;
    };
    const late = (limit) => lateShare(whenBeyond(limit), begins, count);
    const at = (share) => {
      const limit = beyond(share);
      const found = late(limit);
      if (found.periods >= ENOUGH_LATE) return found;
      const missing = count - 1 - place(share) - found.late;
      if (found.late + missing < EQUAL_FROM) return found;
      const equal = [];
      for (let r = 0; r < count; r++) if (latency[r] === limit) equal.push(r);
      const when = whenBeyond(limit);
      for (let k = 0; k < missing; k++) {
        when.push(equal[Math.floor((k * equal.length) / Math.max(missing, 1))]);
      }
      const filled = lateShare([...new Set(when)].sort((a, b) => a - b), begins, count);
      return enough(filled) ? filled : found;
    };
    const known = new Map();
    const located = (percentile) => {
      if (!known.has(percentile)) {
        const share = 1 - percentile / 100;
        known.set(percentile, { beyond: share, estimate: beyond(share), late: at(share) });
      }
      return known.get(percentile);
    };
    const within = (percentile, confidence) => {
      const here = located(percentile);
      const [fewer, more] = reachOf(here.late, confidence, true);
      const high = more >= here.beyond ? Infinity : beyond(here.beyond - more);
      return {
        percentile,
        latency_s: here.estimate,
        low_s: beyond(Math.min(here.beyond + fewer, 1)),
        high_s: high,
        enough: enough(here.late) && Number.isFinite(high),
        late: here.late,
      };
    };
    const verdict = (slo, confidence) => {
      const beyondLimit = late(slo.latency_s);
      const found = within(slo.percentile, 2 * confidence - 1);
      let [meets, misses] = [false, false];
      if (found.enough) {
        meets = found.high_s <= slo.latency_s;
        misses = found.low_s > slo.latency_s;
      } else if (enough(beyondLimit)) {
        const [down, up] = reachOf(beyondLimit, 2 * confidence - 1, false);
        meets = beyondLimit.share + up < 1 - slo.share;
        misses = beyondLimit.share - down > 1 - slo.share;
      }
      const answer = meets ? "meets" : misses ? "misses" : "undecided";
      return { answer, late: beyondLimit.share, on_time: 1 - beyondLimit.share };
    };
    const verdictOfAll = (slo) => {
      const found = late(slo.latency_s);
      const answer = count - found.late >= slo.share * count ? "meets" : "misses";
      return { answer, late: found.share, on_time: 1 - found.share };
    };
    return { within, verdict, verdictOfAll };
  };

  const variation = (gaps) => {
    const mean = gaps.length > 1 ? answers.sum(gaps) / gaps.length : 0;
    if (!mean) return 0;
    const squares = gaps.map((one) => (one - mean) * (one - mean));
    return answers.sum(squares) / gaps.length / mean ** 2;
  };
  const differences = (of) => {
    const found = new Float64Array(Math.max(of.length - 1, 0));
    for (let k = 0; k < found.length; k++) found[k] = of[k + 1] - of[k];
    return found;
  };

  // Whether a model keeps up; `offered` gives requests a second between two moments.
  answers.stability = (arrival, finish, fresh, offered) => {
    const first = arrival[0];
    const last = arrival[arrival.length - 1];
    const long = last - first;
    const came = offered(last - 0.1 * long, last);
    let begin = fresh.lastIndexOf(1);
    const caughtUp = begin >= 0 ? arrival[begin] : first;
    const since = last - caughtUp;
    const ends = finish.filter((one) => one > caughtUp && one <= last).sort();
    const carried = since > 0 ? ends.length / since : NaN;
    let state = "stable";
    if (since > long / 2) {
      begin = below(arrival, caughtUp);
      let left = 0;
      for (let r = begin; r < arrival.length; r++) if (!(finish[r] <= last)) left += 1;
      const gaps = differences(arrival.subarray(begin));
      const chance = gaps.length * (variation(gaps) + variation(differences(ends)));
      if (left > 1 + 3 * Math.sqrt(chance)) state = came > carried ? "overloaded" : "backlogged";
    }
    return { state, offered: came, carried };
  };
})();
