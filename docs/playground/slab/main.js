/* main.js: the page: a session, its answers, what is shown, and what the buttons do. */
"use strict";
((slab) => {
  const element = (id) => document.getElementById(id);
  /* One node of the grid in so many pixels: while something changes, and when it has come to rest. */
  const COARSE = 6;
  const FINE = 3;
  const REST = 180;
  const QUIET = 700;

  const session = new slab.state.Session(slab.link.decode(location.hash) ?? slab.state.SCENES.first());
  const plot = new slab.Plot(element("plot"));
  /* What a fit starts from: the last one's solution. */
  const memory = new Map();
  let pointed = null, loaded = null, version = 0, shown = 0, isBusy = false, changed = 0, resting = 0, speaking = 0;
  /* What became of the last change, until it has been said. */
  let outcome = null;

  /** Say something to those who listen: what was done at once, and what became of it when nothing is done any more. */
  function say(text) {
    element("summary").textContent = text;
    sayOutcome(outcome);
  }

  function sayOutcome(text) {
    clearTimeout(speaking);
    outcome = text;
    if (text === null) return;
    speaking = setTimeout(() => {
      element("summary").textContent = outcome;
      outcome = null;
    }, QUIET);
  }

  /** What is asked of a grid of the picture: the slab has coordinates divided by their scales, the picture has not. */
  function question(grid) {
    const { points, star, parameters, scales } = session.state;
    const scaled = (row) => row.map((value, j) => value / scales[j]);
    const along = ([from, to, count], scale) => [from / scale, to / scale, count];
    return {
      points: points.map(scaled),
      stars: [scaled(star)],
      parameters,
      grid: { x: along(grid.x, scales[0]), y: along(grid.y, scales[1]) },
    };
  }

  /** The next frame, or soon, where frames are not drawn. */
  const frame = () => Promise.race([new Promise(requestAnimationFrame), new Promise((done) => setTimeout(done, 50))]);

  /** Do one thing at a time; one that fails leaves the page free for the next. */
  async function alone(work) {
    isBusy = true;
    try {
      await work();
    } finally {
      isBusy = false;
    }
  }

  /** Ask until the answer is the current state's. */
  async function refresh() {
    if (isBusy) return;
    clearTimeout(resting);
    await alone(async () => {
      while (shown !== version) {
        await frame();
        const asked = version, since = changed;
        answer(COARSE);
        shown = asked;
        performance.measure("answer", { start: since, end: performance.now() });
      }
    });
    document.documentElement.dataset.answered = String(shown);
    resting = setTimeout(async () => {
      if (isBusy || session.state.points.length < 2) return;
      await alone(async () => answer(FINE));
      document.documentElement.dataset.rested = String(shown);
      /* What changed meanwhile; without a change the page is at rest, and computes no more. */
      if (shown !== version) refresh();
    }, REST);
  }

  function answer(pixels) {
    const state = session.state, grid = plot.grid(state, pixels);
    try {
      const found = slab.answer(question(grid), memory);
      const { rho_lower, rho_upper, points } = found, within = (s) => s >= rho_lower && (rho_upper === null || s <= rho_upper);
      points.normal = points.left_out ? points.left_out.map(within) : points.accepted;
      plot.answer = { ...found, grid };
      tell(state, plot.answer);
    } catch (error) {
      if (!(error instanceof slab.QuestionError)) throw error;
      plot.answer = null;
      refuse(error.message);
    }
    redraw();
  }

  /** Write what the answer says. */
  function tell(state, found) {
    const held = found.points.coefficients.filter((c) => c !== 0).length, { words } = slab;
    element("error").hidden = true;
    element("answer").hidden = false;
    element("verdict").textContent = words.verdict(found);
    element("recall").textContent = words.recall(state, found);
    element("counts").textContent = `${state.points.length}, of which ${words.counted(held, "support vector")}`;
    element("certificate").textContent = words.certificate(found);
    element("warnings").replaceChildren(
      ...found.warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })),
    );
    const isNew = state.parameters.calibration === "auto";
    element("legend-novel").textContent = isNew ? "would be rejected if new" : "rejected";
    element("legend-upper").hidden = found.rho_upper === null;
    element("density-note").textContent = isNew
      ? "Each point by its score without itself: where new points will fall. The star is marked by a triangle."
      : "Each point by its training score: it has pulled itself inside, as new points will not. The star is marked by a triangle.";
    element("who").textContent = `This page solved it in ${found.milliseconds.toFixed(0)} ms. No data leave this computer.`;
    sayOutcome(words.summary(state, found));
  }

  function refuse(text) {
    element("error").hidden = false;
    element("error").textContent = text;
    element("answer").hidden = true;
    element("warnings").replaceChildren();
    for (const id of ["density-note", "certificate", "who", "summary"]) element(id).textContent = "";
    sayOutcome(null);
  }

  function redraw() {
    const { state } = session;
    if (plot.selected !== null && plot.selected >= state.points.length) plot.selected = null;
    plot.draw(state);
    slab.drawDensity(element("density"), plot.answer, pointed && plot.positionAt(pointed));
    follow(state, plot.answer);
    element("undo").disabled = !session.past.length;
    element("redo").disabled = !session.future.length;
    element("clear").disabled = !state.points.length;
  }

  function whenChanged() {
    changed = performance.now();
    version++;
    document.documentElement.dataset.asked = String(version);
    redraw();
    refresh();
    clearTimeout(whenChanged.later);
    whenChanged.later = setTimeout(() => history.replaceState(null, "", slab.link.encode(session.state)), 2 * REST);
  }

  const page = {
    say,
    redraw,
    tool: () => document.querySelector("input[name=tool]:checked").value,
    pointed: (place) => {
      pointed = place;
      slab.drawDensity(element("density"), plot.answer, place && plot.positionAt(place));
    },
  };
  const follow = slab.controls.bind(session, say);
  session.listeners.push(whenChanged);
  slab.pointer.listen(plot, session, page);
  slab.keyboard.listen(plot, session, page);

  const press = (id, action) => element(id).addEventListener("click", action);
  press("undo", () => session.undo());
  press("redo", () => session.redo());
  press("zoom-in", () => session.zoom(2 / 3));
  press("zoom-out", () => session.zoom(3 / 2));
  press("clear", () => session.set({ points: [] }));
  for (const button of document.querySelectorAll("[data-scene]")) {
    button.addEventListener("click", () => {
      plot.selected = plot.cursor = null;
      session.set(slab.state.SCENES[button.dataset.scene]());
    });
  }
  press("share", async () => {
    history.replaceState(null, "", slab.link.encode(session.state));
    try {
      await navigator.clipboard.writeText(location.href);
      element("share").textContent = "Copied";
    } catch {
      element("share").textContent = "It is in the address bar";
    }
    say("The link holds all points and parameters.");
    setTimeout(() => (element("share").textContent = "Copy a link to this"), 2000);
  });

  /** Offer a table's columns, and take the first two. */
  function offer(table) {
    loaded = table;
    for (const [id, chosen] of [["column-x", 0], ["column-y", 1]]) {
      element(id).replaceChildren(...table.columns.map(({ name }, i) => new Option(name, String(i), i === chosen, i === chosen)));
    }
    element("columns").hidden = false;
    take();
  }

  function take() {
    const [first, second] = [Number(element("column-x").value), Number(element("column-y").value)];
    try {
      const { points, said } = slab.table.points(loaded, first, second);
      const nonNegative = slab.kernels.named[session.state.parameters.kernel](1).nonNegative;
      const isNegative = points.some((row) => row[0] < 0 || row[1] < 0);
      const parameters = { ...session.state.parameters, gamma: "neighbours" };
      if (nonNegative && isNegative) parameters.kernel = "rbf";
      plot.selected = plot.cursor = null;
      const names = [loaded.columns[first].name, loaded.columns[second].name];
      const shown = slab.state.framed(points, null, nonNegative && !isNegative);
      session.set({ ...shown, scales: slab.state.deviations(shown.points), names, parameters });
      element("table-note").textContent = said;
    } catch (error) {
      if (!(error instanceof slab.QuestionError)) throw error;
      element("table-note").textContent = error.message;
    }
  }

  element("file").addEventListener("change", async ({ target }) => {
    if (!target.files.length) return;
    try {
      offer(slab.table.parse(await target.files[0].text(), target.files[0].name));
    } catch (error) {
      if (!(error instanceof slab.QuestionError)) throw error;
      element("table-note").textContent = error.message;
    }
  });
  element("column-x").addEventListener("change", take);
  element("column-y").addEventListener("change", take);

  /** Within another page: that one says what this is, and has the colours; a page of files may not be asked for them. */
  function beFramed() {
    document.documentElement.dataset.framed = "";
    try {
      const outer = globalThis.parent.document.documentElement;
      const follow = () => {
        if (outer.dataset.theme) document.documentElement.dataset.theme = outer.dataset.theme;
        redraw();
      };
      new MutationObserver(follow).observe(outer, { attributeFilter: ["data-theme"] });
      follow();
    } catch (error) {
      if (error.name !== "SecurityError") throw error;
    }
  }

  /** Light or dark, as the reader's system has it until the button is pressed. */
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const colour = () => {
    element("theme").textContent = isDark() ? "Light colours" : "Dark colours";
    redraw();
  };
  press("theme", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    colour();
  });
  system.addEventListener("change", colour);
  addEventListener("hashchange", () => {
    const state = slab.link.decode(location.hash);
    if (state && slab.link.encode(state) !== slab.link.encode(session.state)) session.set(state);
  });
  new ResizeObserver(redraw).observe(plot.canvas);

  if (globalThis.self !== globalThis.top) beFramed();
  slab.session = session;
  slab.plot = plot;
  colour();
  whenChanged();
})((globalThis.slabsvm ??= {}));
