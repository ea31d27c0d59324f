/* keyboard.js: the plot by keys: a cursor that adds, and points that are chosen, moved and deleted. */
"use strict";
((slab) => {
  const STEP = 1 / 40;
  const FINE = 1 / 400;
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  /**
   * @param {Plot} plot
   * @param {Session} session
   * @param {{say: (text: string) => void, redraw: () => void, pointed: (place: number[] | null) => void}} page
   */
  function listen(plot, session, page) {
    const at = ([x, y]) => `${slab.words.short(x)}, ${slab.words.short(y)}`;
    const middle = ([from, to]) => 0.5 * (from + to);

    /** Move the cursor, or what is chosen. */
    const move = ([dx, dy], isFine) => {
      const { view, points, star } = session.state, step = isFine ? FINE : STEP;
      const by = ([x, y]) => [x + dx * step * (view.x[1] - view.x[0]), y + dy * step * (view.y[1] - view.y[0])];
      if (plot.selected === null) {
        plot.cursor ??= [middle(view.x), middle(view.y)];
        plot.cursor = session.place(by(plot.cursor));
        page.pointed(plot.cursor);
        return page.say(`Cursor at ${at(plot.cursor)}.`);
      }
      session.shift(plot.selected, by(plot.selected < 0 ? star : points[plot.selected]), "keys");
      const place = plot.selected < 0 ? session.state.star : session.state.points[plot.selected];
      page.pointed(place);
      page.say(`${plot.selected < 0 ? "Star" : "Point"} at ${at(place)}.`);
    };

    /** Choose the next point, or the one before. */
    const choose = (step) => {
      const { points } = session.state, n = points.length;
      if (!n) return page.say("There are no points yet. Enter adds one at the cursor.");
      const from = plot.selected === null || plot.selected < 0 ? (step > 0 ? -1 : n) : plot.selected;
      plot.selected = (from + step + n) % n;
      plot.cursor = null;
      page.say(`Point ${plot.selected + 1} of ${n}, at ${at(points[plot.selected])}. Arrows move it, Delete removes it.`);
    };

    const add = () => {
      if (plot.selected !== null) return leave();
      plot.cursor ??= [middle(session.state.view.x), middle(session.state.view.y)];
      if (!session.add([plot.cursor])) return page.say(`There are ${slab.state.MOST_POINTS} points, and no more are taken.`);
      page.say(`Point added at ${at(plot.cursor)}.`);
    };
    const remove = () => {
      if (plot.selected === null || plot.selected < 0) return page.say("Choose a point first, with N or P.");
      const gone = plot.selected;
      plot.selected = null;
      session.remove([gone]);
      page.say(`Point removed. ${slab.words.counted(session.state.points.length, "point")} left.`);
    };
    const leave = () => {
      const { points, star } = session.state;
      if (plot.selected !== null) plot.cursor = plot.selected < 0 ? star : points[plot.selected];
      plot.selected = null;
      session.end();
      page.say("Nothing is chosen: arrows move the cursor.");
    };
    const star = () => {
      plot.selected = -1;
      plot.cursor = null;
      page.say(`Star chosen, at ${at(session.state.star)}. Arrows move it.`);
    };

    const keys = {
      Enter: add, " ": add, n: () => choose(1), p: () => choose(-1), s: star, Delete: remove, Backspace: remove, Escape: leave,
    };
    plot.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const action = ARROWS[event.key] ? () => move(ARROWS[event.key], event.shiftKey) : keys[event.key.length > 1 ? event.key : event.key.toLowerCase()];
      if (!action) return;
      event.preventDefault();
      action();
      page.redraw();
    });
    plot.canvas.addEventListener("blur", () => session.end());
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.target.matches("input[type=number], textarea")) return;
      const isRedo = event.key.toLowerCase() === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
      if (!isRedo && event.key.toLowerCase() !== "z") return;
      event.preventDefault();
      plot.selected = null;
      if (isRedo) session.redo();
      else session.undo();
      page.say(isRedo ? "Done again." : "Undone.");
    });
  }

  slab.keyboard = { listen };
})((globalThis.slabsvm ??= {}));
