// Fingers and the mouse over a canvas: one drags, two pinch, and what stayed where it was clicks.
"use strict";
(() => {
  // Where an event is, in pixels from the surface's corner.
  const placeOn = (surface, event) => {
    const box = surface.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  // `hover(at, event)` of what is not pressed, `drag(dx, dy)`, `pinch(was, now, other)` of places,
  // `click(at)`. More than `near` pixels, as `travel(dx, dy)` has them, are no click; `captures(event)`:
  // whether the surface keeps a pointer that leaves it.
  hetsim.pointing = (surface, { near, travel, captures, hover, drag, pinch, click }) => {
    const down = new Map();
    let travelled = 0;
    surface.addEventListener("pointerdown", (event) => {
      if (captures(event)) surface.setPointerCapture(event.pointerId);
      if (!down.size) travelled = 0;
      down.set(event.pointerId, placeOn(surface, event));
    });
    surface.addEventListener("pointermove", (event) => {
      const now = placeOn(surface, event);
      const was = down.get(event.pointerId);
      if (!was) {
        hover(now, event);
        return;
      }
      const other = [...down].find(([id]) => id !== event.pointerId);
      if (other) {
        pinch(was, now, other[1]);
        travelled = Infinity;
      } else {
        const [dx, dy] = [now[0] - was[0], now[1] - was[1]];
        travelled += travel(dx, dy);
        if (travelled > near) drag(dx, dy);
      }
      down.set(event.pointerId, now);
    });
    const up = (event) => {
      if (!down.delete(event.pointerId) || event.type === "pointercancel" || travelled > near) return;
      click(placeOn(surface, event));
    };
    surface.addEventListener("pointerup", up);
    surface.addEventListener("pointercancel", up);
  };
  hetsim.placeOn = placeOn;
})();
