// The page around its views: tabs, what is drawn when, print, the buttons at its head.
"use strict";
(() => {
  const { island, element, button, copyButton, dark, darkly, retheme, plotly, unpackAll } = hetsim;

  const views = [];
  const view = (one) => views.push(one);
  const shown = [];
  let underWay = 0;
  const settled = () => underWay === 0;
  function drawn(panel) {
    if (panel.ready) return panel.ready;
    underWay += 1;
    panel.ready = (async () => {
      if (!panel.view) return;
      const picture = element("div", { class: "picture" });
      const caption = panel.section.querySelector(".caption") || panel.section.querySelector("h2");
      caption.after(picture);
      try {
        await panel.view.draw(picture, island);
      } catch (error) {
        picture.replaceChildren(element("p", { class: "note",
          text: "This picture could not be drawn here; the tables hold its figures." }));
        console.error(error);
      }
      if (printing) panel.section.querySelectorAll("details").forEach((one) => { one.open = true; });
    })().finally(() => { underWay -= 1; });
    return panel.ready;
  }
  function choose(panel, { focus = false, remember = true } = {}) {
    for (const one of shown) {
      const chosen = one === panel;
      one.section.classList.toggle("chosen", chosen);
      one.tab.setAttribute("aria-selected", String(chosen));
      one.tab.tabIndex = chosen ? 0 : -1;
    }
    if (focus) panel.tab.focus();
    const { tab } = panel, bar = tab.parentElement;
    if (bar.scrollWidth > bar.clientWidth) {
      bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
    }
    if (remember) try { history.replaceState(null, "", `#${panel.id}`); } catch (error) { /* file: */ }
    const ready = drawn(panel);
    window.dispatchEvent(new Event("resize"));
    return ready;
  }
  function byKey(event) {
    const place = shown.findIndex((one) => one.tab === event.target);
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (place < 0 || to === undefined) return;
    event.preventDefault();
    choose(shown[(to + shown.length) % shown.length], { focus: true });
  }
  function panels() {
    const found = new Map();
    for (const section of document.querySelectorAll(".view")) {
      found.set(section.dataset.view, { id: section.dataset.view, section,
        title: section.dataset.title, order: Number(section.dataset.order) });
    }
    const box = document.getElementById("views");
    for (const one of views) {
      if (!one.shows(island)) continue;
      if (!found.has(one.id)) {
        const section = element("section", { class: "view", id: `view-${one.id}` },
          element("h2", { text: one.title }));
        if (one.caption) section.append(element("p", { class: "caption", text: one.caption }));
        found.set(one.id, { id: one.id, section, title: one.title, order: one.order ?? 50 });
      }
      found.get(one.id).view = one;
    }
    shown.push(...[...found.values()].sort((a, b) => a.order - b.order));
    box.append(...shown.map((one) => one.section));
    return box;
  }
  function tabs(box) {
    const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: byKey });
    for (const one of shown) {
      one.tab = element("button", { role: "tab", type: "button", id: `tab-${one.id}`,
        "aria-controls": one.section.id, text: one.title, onclick: () => choose(one) });
      one.section.setAttribute("role", "tabpanel");
      one.section.setAttribute("aria-labelledby", one.tab.id);
      one.section.tabIndex = -1;
      bar.append(one.tab);
    }
    box.before(bar);
  }

  // Printing: every view, every table open, in the light, as wide as a sheet. All that pictures
  // wait for is there by then, so they are drawn before the browser looks.
  const SHEET = 720;
  let atHand = false;
  const printable = () => atHand;
  let printing = false, opened = [], themeWas;
  function beforePrint() {
    if (printing) return;
    printing = true;
    themeWas = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    document.documentElement.classList.add("printed");
    document.body.style.width = `${SHEET}px`;
    shown.forEach(drawn);
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }
  function afterPrint() {
    if (!printing) return;
    printing = false;
    if (themeWas) document.documentElement.dataset.theme = themeWas;
    else delete document.documentElement.dataset.theme;
    document.documentElement.classList.remove("printed");
    document.body.style.width = "";
    opened.forEach((one) => { one.open = false; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }
  async function allDrawn() {
    await Promise.all(shown.map(drawn));
  }

  function buttons() {
    const theme = button("", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      named();
      retheme();
    });
    const named = () => { theme.textContent = dark() ? "Light" : "Dark"; };
    named();
    darkly.addEventListener("change", () => { named(); retheme(); });
    const print = button("Print", async () => { await allDrawn(); window.print(); });
    document.getElementById("buttons").append(theme, print);
    const command = document.getElementById("command");
    // What scrolls is reached by keys, too.
    hetsim.words(command, command.textContent);
    if (command.scrollHeight > command.clientHeight) command.tabIndex = 0;
    command.after(copyButton(island.command));
  }

  function start() {
    document.documentElement.classList.add("js");
    buttons();
    tabs(panels());
    const wanted = shown.find((one) => `#${one.id}` === location.hash) || shown[0];
    if (wanted) choose(wanted, { remember: false });
    window.addEventListener("beforeprint", beforePrint);
    window.addEventListener("afterprint", afterPrint);
    window.matchMedia("print").addEventListener("change", (event) =>
      (event.matches ? beforePrint() : afterPrint()));
    window.addEventListener("hashchange", () => {
      const said = shown.find((one) => `#${one.id}` === location.hash);
      if (said) choose(said, { remember: false });
    });
    // Pictures that no one has looked at yet are there when the page is printed.
    const idly = window.requestIdleCallback || ((work) => setTimeout(work, 300));
    idly(async () => {
      await Promise.allSettled([plotly(), unpackAll(island.pictures)]);
      atHand = true;
    });
  }

  Object.assign(hetsim, { view, start, settled, printable });
})();
