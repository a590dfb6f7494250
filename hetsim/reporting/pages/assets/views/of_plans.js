// Pictures of several plans, one shown at a time.
"use strict";
(() => {
  const { element, told } = hetsim;

  // The choice of one of them, with its label; nothing where there is no choice.
  function planChoice(id, pictures, show, what = "plan") {
    if (pictures.length < 2) return [];
    const choice = element("select", { id, onchange: () => show(pictures[Number(choice.value)]) },
      ...pictures.map((one, place) => element("option", { value: place, text: told(one.name, 60) })));
    return [element("label", { for: id, text: what }), choice];
  }

  // A box with that choice, a place for the picture and a note below: `show(one, picture, note)`.
  function ofPlans(box, id, pictures, show) {
    const picture = element("div"), note = element("p", { class: "caption" });
    const shown = (one) => show(one, picture, note);
    const choice = planChoice(id, pictures, shown);
    if (choice.length) box.append(element("div", { class: "tools" }, ...choice));
    box.append(picture, note);
    return shown(pictures[0]);
  }

  Object.assign(hetsim, { planChoice, ofPlans });
})();
