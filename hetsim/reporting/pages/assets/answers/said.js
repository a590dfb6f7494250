// What a page says where sliders stand: the command, what bounds say, and what the requests do.
"use strict";
(() => {
  const { answers } = hetsim;
  const rateText = (value) => `${Number(value.toPrecision(4))}/s`;

  // What is asked of a row of sliders, as the command line says it.
  const commandOf = (row, asked) => {
    const found = [...row.command];
    if (!row.from_file) {
      found.push("--rate", String(asked.rate), "--requests", String(row.requests));
      for (const slo of asked.slos[0]) found.push("--slo", `p${slo.percentile}=${slo.ms}ms`);
    }
    if (asked.usd !== undefined) found.push("--price", `platform=${plainNumber(asked.usd)}/h`);
    return [...found, ...answers.supposed(row, asked)];
  };
  // What of it any verb takes.
  answers.supposed = (row, asked) => {
    const found = [];
    if (row.from_file && asked.factor !== 1) found.push("--faster", String(asked.factor));
    if (asked.speed !== 1) found.push("--what-if", `device ${asked.device}.speed x${asked.speed}`);
    return found;
  };
  const plainNumber = (value) => {
    const text = String(value);
    return text.includes("e") ? value.toFixed(12).replace(/0+$/, "") : text;
  };

  // What bounds say of a setting, whatever is played: words, or nothing.
  const bounded = (row, asked) => {
    const found = [];
    const rate = row.from_file ? asked.factor * row.rate_per_s : asked.rate;
    if (row.ceiling_per_s !== null && rate >= row.ceiling_per_s) {
      found.push(
        `From ${rateText(row.ceiling_per_s)} on more comes than ${row.ceiling_binds} can do, ` +
          "however long it goes on: in the long run nothing is on time.",
      );
    }
    const stricter = asked.slos.every((slos, at) => slos.every((slo, k) =>
      slo.latency_s <= row.limits[at][k].latency_s));
    if (row.most_per_s && rate > row.most_per_s && asked.speed === 1 && stricter) {
      found.push(
        `Beyond ${rateText(row.most_per_s)} no placement of the instances that there may be carries it: ` +
          "a new search finds none that does.",
      );
    }
    asked.slos.forEach((slos, at) => {
      for (const slo of slos) {
        if (slo.latency_s < row.quickest_s[at]) {
          found.push(
            `No rate meets ${hetsim.seconds(slo.latency_s)}: a request alone takes ` +
              `${hetsim.seconds(row.quickest_s[at])} at least.`,
          );
        }
      }
    });
    return found;
  };

  // All that a page says of a setting: {answered, lines, command, service}.
  answers.said = (row, asked) => {
    const command = commandOf(row, asked);
    const lines = bounded(row, asked);
    if (asked.speed !== 1) {
      const bound = hetsim.island.record.bound_per_s;
      if (bound) {
        lines.push(
          `With ${asked.device} ${asked.speed} times as fast no plan carries ` +
            `${rateText(bound * Math.max(asked.speed, 1))} or more.`,
        );
      }
      lines.unshift("New plans are made for it: only the command below says what they do.");
      return { answered: false, lines, command };
    }
    const service = row.load && answers.served(row.load, {
      ...(row.from_file ? { factor: asked.factor } : { rate: asked.rate }),
      slos: asked.slos,
      hourly_usd: asked.usd,
    });
    if (!service) {
      const why = row.why_not ? ` (${row.why_not})` : "";
      lines.unshift(`It takes the full clock${why}: the command below says it.`);
      return { answered: false, lines, command };
    }
    return { answered: true, lines, command, service };
  };

  // The exit code of `hetsim capacity --target-rate`: 0 met, 4 infeasible, 5 missed, 6 undecided.
  answers.capacityAt = (record, rate) => {
    const at = (row) => {
      if (row.answer === "misses" && row.proved) return "misses";
      for (const one of row.rates) {
        if (one.low_per_s <= rate && (one.high_per_s === null || rate <= one.high_per_s)) return "meets";
      }
      if (row.ceiling_per_s !== null && rate >= row.ceiling_per_s && row.how === "verdicts") return "misses";
      const last = row.rates[row.rates.length - 1];
      if (last && row.one_span && last.misses_above_per_s !== null && rate >= last.misses_above_per_s) {
        return "misses";
      }
      return "undecided";
    };
    const rows = record.rows.filter((row) => row.refused === null);
    const met = rows.find((row) => row.answer === "meets" && at(row) === "meets");
    if (met) return { code: 0, answer: "meets", by: met.name };
    if (record.impossible !== null) return { code: 4, answer: "misses" };
    if (record.bound_per_s !== null && rate > record.bound_per_s) return { code: 4, answer: "misses" };
    if (rows.length && rows.every((row) => at(row) === "misses")) return { code: 5, answer: "misses" };
    return { code: 6, answer: "undecided" };
  };
})();
