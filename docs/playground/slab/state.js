/* state.js: what the page is about (points, a star, parameters, the view), its history, and scenes to begin with. */
"use strict";
((slab) => {
  const MOST_POINTS = 500;
  const MOST_STEPS_BACK = 200;
  /* Coordinates are no larger: products of them stay numbers. */
  const LARGEST = 1e100;
  /* A range is no narrower, by itself and as a share of its ends: rounding keeps its parts apart. */
  const NARROWEST = 1e-45;
  const NARROWEST_SHARE = 1e-9;
  const MOST_DECIMALS = 50;
  const DEFAULTS = {
    kernel: "rbf", gamma: "neighbours", nu_lower: 0.1, nu_upper: 0.01, epsilon: 2 / 3, calibration: "auto",
  };

  /**
   * @typedef {object} State
   * @property {number[][]} points
   * @property {number[]} star
   * @property {object} parameters
   * @property {{x: number[], y: number[]}} view from and to
   * @property {string[]} names of the coordinates
   * @property {number[]} scales by which the slab has each coordinate divided: 1, or the deviation of a table's column
   */

  /** The decimals that a coordinate is kept with, so that a link can carry it: a hundred-thousandth of the span. */
  const decimals = (span) => Math.min(Math.max(Math.ceil(5 - Math.log10(span)), 0), MOST_DECIMALS);
  const rounded = (value, digits) => Number(value.toFixed(digits));

  const narrowest = (from, to) => Math.max(NARROWEST, NARROWEST_SHARE * Math.max(Math.abs(from), Math.abs(to)));
  const isPlace = (row) => row.length === 2 && row.every((v) => Math.abs(v) <= LARGEST);
  const isView = ({ x, y }) => [x, y].every((range) => isPlace(range) && range[1] - range[0] >= narrowest(...range));

  /** Points and a star with the decimals that their span asks for, and a view that shows them. */
  function framed(points, star, nonNegative = false) {
    const range = (j) => {
      const all = points.map((row) => row[j]);
      const low = Math.min(...all), high = Math.max(...all);
      const room = Math.max(0.35 * (high - low || Math.abs(high) || 1), narrowest(low, high));
      return [Math.max(low - room, nonNegative ? 0 : -LARGEST), Math.min(high + room, LARGEST)];
    };
    const x = range(0), y = range(1), dx = decimals(x[1] - x[0]), dy = decimals(y[1] - y[0]);
    const kept = ([a, b]) => [rounded(a, dx), rounded(b, dy)];
    const outer = star ?? [x[1] - 0.1 * (x[1] - x[0]), y[0] + 0.12 * (y[1] - y[0])];
    const shown = { x: x.map((v) => rounded(v, dx)), y: y.map((v) => rounded(v, dy)) };
    return { points: points.map(kept), star: kept(outer), view: shown };
  }

  /** Each coordinate's standard deviation to three digits, 1 where it is constant: what features of two units ask for. */
  function deviations(points) {
    return [0, 1].map((j) => {
      const values = points.map((row) => row[j]), mean = values.reduce((a, b) => a + b, 0) / values.length;
      const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length;
      return values.some((v) => v !== values[0]) ? Number(Math.sqrt(variance).toPrecision(3)) || 1 : 1;
    });
  }

  /** A state and those before it; changes of one gesture are undone together. */
  class Session {
    /** @param {State} state */
    constructor(state) {
      this.state = state;
      this.past = [];
      this.future = [];
      this.gesture = null;
      this.listeners = [];
    }

    /**
     * @param {Partial<State>} changes
     * @param {string | null} [gesture]
     */
    set(changes, gesture = null) {
      if (gesture === null || gesture !== this.gesture) this.past = [...this.past.slice(1 - MOST_STEPS_BACK), this.state];
      this.gesture = gesture;
      this.future = [];
      this.state = { ...this.state, ...changes };
      this.notify();
    }

    /** Change parameters. */
    tune(parameters, gesture = null) {
      this.set({ parameters: { ...this.state.parameters, ...parameters } }, gesture);
    }

    end() {
      this.gesture = null;
    }

    undo() {
      this.move(this.past, this.future);
    }

    redo() {
      this.move(this.future, this.past);
    }

    move(from, to) {
      if (!from.length) return;
      to.push(this.state);
      this.state = from.pop();
      this.gesture = null;
      this.notify();
    }

    notify() {
      for (const listener of this.listeners) listener(this.state);
    }

    /** Where a place of the view is, with the decimals that points are kept with. */
    place([x, y]) {
      const { view, parameters } = this.state, least = slab.kernels.named[parameters.kernel](1).nonNegative ? 0 : -Infinity;
      const clipped = (value, [from, to]) =>
        rounded(Math.max(Math.min(Math.max(value, from), to), least), decimals(to - from));
      return [clipped(x, view.x), clipped(y, view.y)];
    }

    add(points, gesture = null) {
      const room = MOST_POINTS - this.state.points.length;
      if (room > 0) this.set({ points: [...this.state.points, ...points.slice(0, room).map((p) => this.place(p))] }, gesture);
      return points.length <= room;
    }

    /** Move a point, or the star (-1). */
    shift(index, to, gesture = null) {
      if (index < 0) return this.set({ star: this.place(to) }, gesture);
      this.set({ points: this.state.points.map((row, i) => (i === index ? this.place(to) : row)) }, gesture);
    }

    remove(indexes, gesture = null) {
      const gone = new Set(indexes);
      if (gone.size) this.set({ points: this.state.points.filter((_, i) => !gone.has(i)) }, gesture);
    }

    /** Make the view larger (factor > 1) or smaller about its middle, as far as numbers go. */
    zoom(factor) {
      const nonNegative = slab.kernels.named[this.state.parameters.kernel](1).nonNegative;
      const scaled = ([from, to]) => {
        const middle = 0.5 * (from + to), half = 0.5 * factor * (to - from), digits = decimals(2 * half);
        return [rounded(nonNegative ? Math.max(middle - half, 0) : middle - half, digits), rounded(middle + half, digits)];
      };
      const scaledView = { x: scaled(this.state.view.x), y: scaled(this.state.view.y) };
      if (isView(scaledView)) this.set({ view: scaledView });
    }

    /** Choose a kernel; points are moved to where it is defined. Returns whether they were. */
    choose(kernel) {
      const { points, star, parameters } = this.state;
      const chosen = { parameters: { ...parameters, kernel } };
      const least = (j) => Math.min(...[...points, star].map((row) => row[j]));
      const moves = slab.kernels.named[kernel](1).nonNegative && points.length && (least(0) < 0 || least(1) < 0);
      if (moves) {
        const low = [least(0), least(1)], up = ([x, y]) => [x - Math.min(low[0], 0), y - Math.min(low[1], 0)];
        Object.assign(chosen, framed(points.map(up), up(star), true));
      } else if (slab.kernels.named[kernel](1).nonNegative) {
        const { x, y } = this.state.view, kept = { x: [Math.max(x[0], 0), x[1]], y: [Math.max(y[0], 0), y[1]] };
        chosen.view = isView(kept) ? kept : { x: [0, view.x[1]], y: [0, view.y[1]] };
      }
      this.set(chosen);
      return Boolean(moves);
    }
  }

  /** Normal numbers from a seed, the same in all browsers. */
  function normal(seed) {
    let state = seed;
    const uniform = () => (state = (state * 16807) % 2147483647) / 2147483647;
    return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  }

  const drawn = (seed, count, place) => {
    const next = normal(seed);
    return Array.from({ length: count }, (_, i) => place(next, i).map((v) => rounded(v, 3)));
  };

  const ring = () =>
    drawn(20, 120, (next, i) => {
      const turn = (2 * Math.PI * (i + 0.3 * next())) / 120, radius = 1.9 + 0.17 * next();
      return [radius * Math.cos(turn), radius * Math.sin(turn)];
    });

  const crescent = () =>
    drawn(20, 120, (next, i) => {
      const turn = (Math.PI * (i + 0.3 * next())) / 120 - 0.2, radius = 2.1 + 0.24 * next();
      return [radius * Math.cos(turn), radius * Math.sin(turn) - 0.7];
    });

  const view = { x: [-4, 4], y: [-3, 3] };
  const names = ["x", "y"], scales = [1, 1];
  const around = { ...DEFAULTS, nu_lower: 0.08, nu_upper: 0.05, gamma: 0.05 };
  const SCENES = {
    first: () => ({ points: ring(), star: [0.2, 0.1], parameters: around, view, names, scales }),
    planes: () => ({ points: ring(), star: [0.2, 0.1], parameters: { ...around, epsilon: 0 }, view, names, scales }),
    islands: () => ({
      points: crescent(), star: [0, -0.4], names, scales, view,
      parameters: { ...DEFAULTS, gamma: 12, calibration: "training" },
    }),
    intruders: () => ({
      points: [
        ...drawn(3, 110, (next) => [-0.7 + 0.8 * next(), 0.3 + 0.6 * next()]),
        ...drawn(5, 14, (next) => [2.6 + 0.16 * next(), -1.9 + 0.16 * next()]),
      ],
      star: [2.5, -1.5], names, scales, view, parameters: { ...DEFAULTS, gamma: "scale", nu_lower: 0.03 },
    }),
  };

  slab.state = { MOST_POINTS, MOST_DECIMALS, LARGEST, DEFAULTS, SCENES, Session, deviations, framed, isPlace, isView, normal };
})((globalThis.slabsvm ??= {}));
