// Sliders, and the command that says what they say.
"use strict";
(() => {
  const { answers } = hetsim;
  const STEPS = 400;

  // A number of three digits, as a decimal that Python reads as the same.
  answers.short = (value, digits = 3) => Number(value.toPrecision(digits));

  // Words as the shell takes them, as Python's shlex.join writes them.
  answers.shell = (words) =>
    words
      .map((word) => {
        if (word === "") return "''";
        return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\"'\"'")}'`;
      })
      .join(" ");

  // Words without an option and its value.
  answers.dropped = (words, drops) => {
    const found = [];
    for (let k = 0; k < words.length; k++) {
      if (k + 1 < words.length && drops(words[k], words[k + 1])) k += 1;
      else found.push(words[k]);
    }
    return found;
  };

  // Ticks of a logarithmic axis: 1, 2 and 5 of each power of ten.
  answers.ticks = (low, high) => {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const each of [1, 2, 5]) found.push(Number(`${each}e${power}`));
    }
    const kept = found.filter((one) => one >= low / 1.5 && one <= high * 1.5);
    return { tickvals: kept, ticktext: kept.map(String) };
  };

  // Work once after the last of many moves, as soon as the page can.
  answers.soon = (work) => {
    let asked = false;
    return () => {
      if (asked) return;
      asked = true;
      setTimeout(() => {
        asked = false;
        work();
      }, 30);
    };
  };

  let counted = 0;
  // A slider on a scale of ratios, with its number beside it. `moved(value)`.
  answers.slider = ({ name, unit, low, high, value, moved }) => {
    const id = `slider-${(counted += 1)}`;
    const ratio = Math.log(high / low);
    const place = (of) => Math.round((STEPS * Math.log(Math.min(Math.max(of, low), high) / low)) / ratio);
    const range = hetsim.element("input", { type: "range", min: 0, max: STEPS, step: 1, id,
      "aria-label": `${name}, ${unit}` });
    const field = hetsim.element("input", { type: "number", min: 0, step: "any",
      "aria-label": `${name} in ${unit}` });
    const made = hetsim.element("div", { class: "slider" },
      hetsim.element("label", { for: id, text: name }), range, field,
      hetsim.element("span", { class: "unit", text: unit }));
    const said = (now) => {
      made.value = now;
      field.value = String(now);
      range.value = String(place(now));
      range.setAttribute("aria-valuetext", `${now} ${unit}`);
    };
    range.addEventListener("input", () => {
      const now = Number(range.value) === place(value) ? value
        : answers.short(low * Math.exp((ratio * Number(range.value)) / STEPS));
      said(now);
      moved(now);
    });
    field.addEventListener("change", () => {
      const now = Number(field.value);
      if (!(now > 0) || !Number.isFinite(now)) return said(made.value);
      said(now);
      return moved(now);
    });
    said(value);
    made.said = said;
    return made;
  };

  // A command line with a button that copies it. `say(words)`.
  answers.command = () => {
    const code = hetsim.element("code", { tabindex: 0 });
    let line = "";
    const made = hetsim.element("div", { class: "command" }, code, hetsim.copyButton(() => line));
    made.say = (words) => {
      line = answers.shell(words);
      hetsim.words(code, line);
    };
    return made;
  };

  // Sliders beside what they answer. `build()` gives the sliders as they were at first, to which a
  // button goes back; `inside`: the elements of the answer. Gives the element, and `again()`.
  answers.asking = (build, answer, ...inside) => {
    const controls = hetsim.element("div", { class: "sliders" });
    const made = hetsim.element("div", { class: "asking" }, controls,
      hetsim.element("div", { class: "answer" }, ...inside));
    made.again = () => {
      controls.replaceChildren(...build(), hetsim.element("div", { class: "slider" },
        hetsim.button("As it was", made.again)));
      answer();
    };
    return made;
  };

  answers.field = (name, inside) => {
    const id = `slider-${(counted += 1)}`;
    inside.id = id;
    return hetsim.element("div", { class: "slider" },
      hetsim.element("label", { for: id, text: name }), inside);
  };
})();
