// One plan, kept, on devices of other speeds: one request by the clock.
"use strict";
(() => {
  const { answers } = hetsim;

  // What a page says of speeds by device: {seconds, play}.
  answers.atSpeeds = (data, speeds) => {
    const duration = [...data.seconds];
    const play = [...data.play];
    for (const one of data.devices) {
      const speed = speeds[one.name] ?? 1;
      if (speed === 1) continue;
      const row = one.seconds[data.stops.indexOf(speed)];
      one.tasks.forEach((task, k) => { duration[task] = row[k]; });
      play.push("--what-if", `device ${one.name}.speed x${speed}`);
    }
    return { seconds: answers.alone(data.structure, 0, duration), play };
  };

  hetsim.view({
    id: "speeds",
    title: "Other speeds",
    order: 15,
    caption: "The plan kept as it is, on devices that are so many times as fast: what each subgraph takes then, as "
      + "priced, played by the clock with its links. A new plan may do better: that takes a new search.",
    shows: (island) => Boolean(island.pictures.speeds),
    draw(box, island) {
      const { element, seconds, percent } = hetsim;
      const data = island.pictures.speeds;
      const stops = [...data.stops, 1].sort((a, b) => a - b);
      let speeds = {};
      const was = answers.atSpeeds(data, {}).seconds;
      const say = element("p", { class: "said", "aria-live": "polite" });
      const bounds = element("ul", { class: "bounds" });
      const leave = answers.command();
      const play = answers.command();
      const answer = () => {
        const found = answers.atSpeeds(data, speeds);
        answers.last = found;
        const changed = Object.values(speeds).some((one) => one !== 1);
        const change = changed ? `, ${percent(found.seconds / was - 1, true)}` : "";
        say.textContent = hetsim.told(`${data.strategy}, kept: ${seconds(found.seconds)}${change}.`);
        const bound = island.record.lower_bound_s;
        const most = Math.max(1, ...Object.values(speeds));
        bounds.replaceChildren(...(bound && island.record.objective === "latency"
          ? [element("li", { text: `No plan takes less than ${seconds(bound / most)} then.` })] : []));
        if (data.leave) leave.say(data.leave);
        play.say(found.play);
      };
      const soon = answers.soon(answer);
      const slider = (one) => {
        const id = `speed-${data.devices.indexOf(one)}`;
        const range = element("input", { type: "range", min: 0, max: stops.length - 1, step: 1,
          value: stops.indexOf(1), id });
        const shown = element("output", { for: id, text: "x1" });
        const name = hetsim.told(one.name, 40);
        range.setAttribute("aria-valuetext", "1 times as fast");
        range.addEventListener("input", () => {
          const speed = stops[Number(range.value)];
          speeds[one.name] = speed;
          shown.textContent = `x${speed}`;
          range.setAttribute("aria-valuetext", `${speed} times as fast`);
          soon();
        });
        return element("div", { class: "slider" }, element("label", { for: id, text: name }), range, shown,
          element("span", { class: "unit", text: "times as fast" }));
      };
      const build = () => {
        speeds = {};
        return data.devices.map(slider);
      };
      const asking = answers.asking(build, answer, say, bounds,
        ...(data.leave ? [element("p", { class: "caption", text: "This leaves the plan on disk:" }), leave] : []),
        element("p", { class: "caption", text: "The command line says the same of it:" }), play);
      box.append(asking);
      asking.again();
    },
  });
})();
