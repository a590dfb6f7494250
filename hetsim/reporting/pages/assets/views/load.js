// Latency over rate: a slider stops at each rate that was simulated, beside the command for it.
"use strict";
hetsim.views.load = async (box) => {
  const { element, unpacked } = hetsim;
  const deployments = hetsim.island.pictures.load;
  const figures = new Map();
  for (const one of deployments) figures.set(one, await unpacked(one.figure));
  let row = deployments[0], at = row.start;
  const said = element("p", { class: "said", "aria-live": "polite" });
  const rows = element("tbody"), output = element("output", { for: "rate" });
  const range = element("input", { type: "range", min: 0, step: 1, id: "rate" });
  const commands = [0, 1].map(() => {
    const code = element("code", { tabindex: 0 });
    return element("div", { class: "command" }, code, hetsim.copyButton(() => code.textContent));
  });
  const left = element("p", { class: "caption", text: "This command writes the files that the first one reads:" });
  const picture = element("div", { class: "picture" });
  const make = () => {
    const figure = figures.get(row), { rates } = row;
    const mark = { type: "line", yref: "paper", y0: 0, y1: 1, x0: rates[at], x1: rates[at],
      line: { color: "--strong", width: 3 } };
    return { ...figure, layout: { ...figure.layout, shapes: [...figure.layout.shapes, mark] } };
  };
  let chart = null;
  const answer = () => {
    const stop = row.stops[at];
    range.max = row.stops.length - 1;
    range.value = at;
    range.setAttribute("aria-valuetext", stop.rate);
    output.textContent = stop.rate;
    said.textContent = stop.say;
    rows.replaceChildren(...stop.figures.map(([name, text]) => element("tr", {},
      element("th", { scope: "row", text: name }), element("td", { class: "figure", text }))));
    [stop.command, row.leave].forEach((line, place) => {
      commands[place].hidden = !line;
      hetsim.words(commands[place].firstChild, line || "");
    });
    left.hidden = !row.leave;
    if (chart) chart.redraw();
  };
  range.addEventListener("input", () => { at = Number(range.value); answer(); });
  const field = (label, ...inside) => element("div", { class: "slider" }, label, ...inside);
  const choice = hetsim.choice("deployment", deployments.map((one) => one.name),
    (place) => { row = deployments[place]; at = row.start; answer(); });
  const controls = element("div", { class: "sliders" }, ...(deployments.length > 1 ? [choice] : []),
    field(element("label", { for: "rate", text: "Arrival rate" }), range, output));
  box.append(element("div", { class: "asking" }, controls, element("div", { class: "answer" }, said,
    element("div", { class: "scroll" }, element("table", { class: "figures" }, rows)), commands[0], left, commands[1])), picture);
  answer();
  chart = await hetsim.plot(picture, make);
};
