/* pointer.js: mouse, pen and touch on the plot: add, drag, paint, erase. */
"use strict";
((slab) => {
  const REACH = { mouse: 10, pen: 14, touch: 24 };
  const BRUSH = 0.045;
  const ERASER = 18;
  const EACH = 14;

  /**
   * @param {Plot} plot
   * @param {Session} session
   * @param {{tool: () => string, say: (text: string) => void, pointed: (place: number[] | null) => void,
   *   redraw: () => void}} page
   */
  function listen(plot, session, page) {
    const { canvas } = plot, next = slab.state.normal(Date.now() % 1e9);
    let dragged = null, isPainting = false, last = null;

    const pixels = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const distance = (place, at) => {
      const [x, y] = plot.toPixels(place, session.state);
      return Math.hypot(x - at[0], y - at[1]);
    };
    /** The point there, the star (-1), or null. */
    const hit = (at, reach) => {
      if (distance(session.state.star, at) <= reach + 3) return -1;
      let best = null, least = reach;
      session.state.points.forEach((point, i) => {
        const away = distance(point, at);
        if (away <= least) (least = away), (best = i);
      });
      return best;
    };
    const full = () => page.say(`There are ${slab.state.MOST_POINTS} points, and no more are taken. Erase some first.`);

    const paint = (at) => {
      if (last && Math.hypot(at[0] - last[0], at[1] - last[1]) < EACH) return;
      last = at;
      const { view } = session.state, [x, y] = plot.toPlace(at, session.state);
      const spread = [BRUSH * (view.x[1] - view.x[0]), BRUSH * (view.y[1] - view.y[0])];
      if (!session.add([0, 1].map(() => [x + spread[0] * next(), y + spread[1] * next()]), "paint")) full();
    };
    const erase = (at) => {
      const gone = session.state.points.flatMap((point, i) => (distance(point, at) <= ERASER ? [i] : []));
      session.remove(gone, "erase");
    };

    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const at = pixels(event), tool = page.tool();
      const found = hit(at, REACH[event.pointerType] ?? REACH.mouse);
      plot.cursor = null;
      if (found === -1 || (tool === "add" && found !== null)) dragged = found;
      else if (tool === "add") {
        if (session.state.points.length >= slab.state.MOST_POINTS) return full();
        session.add([plot.toPlace(at, session.state)], "drag");
        dragged = session.state.points.length - 1;
      } else {
        isPainting = true;
        last = null;
        (tool === "paint" ? paint : erase)(at);
      }
      plot.selected = dragged;
      page.redraw();
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = pixels(event);
      page.pointed(plot.toPlace(at, session.state));
      if (dragged !== null) session.shift(dragged, plot.toPlace(at, session.state), "drag");
      else if (isPainting) (page.tool() === "paint" ? paint : erase)(at);
    });
    const release = () => {
      dragged = null;
      isPainting = false;
      session.end();
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => page.pointed(null));
    canvas.addEventListener("contextmenu", (event) => {
      const found = hit(pixels(event), REACH.mouse);
      if (found === null || found < 0) return;
      event.preventDefault();
      plot.selected = null;
      session.remove([found]);
    });
  }

  slab.pointer = { listen };
})((globalThis.slabsvm ??= {}));
