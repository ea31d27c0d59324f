/* rows.js: distinct rows with their weights, and the rules for gamma (slabsvm.data.distinct, slabsvm.bandwidth). */
"use strict";
((slab) => {
  const REACHED_NEIGHBOUR = 5;
  const REACH = 2;
  const NARROW = 16;

  /**
   * Merge equal rows into one of greater weight.
   * @param {number[][]} points
   * @returns {{rows: number[][], weights: number[], group: number[]}} group: which distinct row each point is
   */
  function distinct(points) {
    const places = new Map(), rows = [], weights = [];
    const group = points.map(([x, y]) => {
      /* A zero has no sign. */
      const name = `${x + 0},${y + 0}`;
      if (!places.has(name)) {
        places.set(name, rows.length);
        rows.push([x, y]);
        weights.push(0);
      }
      weights[places.get(name)] += 1;
      return places.get(name);
    });
    return { rows, weights, group };
  }

  /** The variance of all coordinates. */
  function variance(points) {
    const all = points.flat(), mean = all.reduce((a, b) => a + b, 0) / all.length;
    return all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length;
  }

  function median(values) {
    const sorted = Float64Array.from(values).sort(), middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
  }

  /** The squared distance of row i to its count-th nearest of the others. */
  function squaredDistanceToNearest(rows, i, count) {
    const [x, y] = rows[i], nearest = new Float64Array(count).fill(Infinity);
    for (let j = 0; j < rows.length; j++) {
      const squared = (rows[j][0] - x) ** 2 + (rows[j][1] - y) ** 2;
      if (j === i || squared >= nearest[count - 1]) continue;
      let place = count - 1;
      for (; place > 0 && nearest[place - 1] > squared; place--) nearest[place] = nearest[place - 1];
      nearest[place] = squared;
    }
    return nearest[count - 1];
  }

  /** The largest gamma at which rows reach their fifth nearest. */
  function largestThatReaches(rows) {
    if (rows.length < 2) return Infinity;
    const reached = Math.min(REACHED_NEIGHBOUR, rows.length - 1);
    const distance = median(rows.map((_, i) => squaredDistanceToNearest(rows, i, reached)));
    return distance > 0 ? REACH / distance : Infinity;
  }

  /**
   * @param {number | "scale" | "neighbours"} gamma
   * @param {number[][]} points all of them
   * @param {number[][]} rows the distinct ones
   */
  function gammaValue(gamma, points, rows) {
    if (typeof gamma === "number") return gamma;
    const spread = variance(points), scale = spread > 0 ? 1 / (2 * spread) : 1;
    return gamma === "scale" || !(spread > 0) ? scale : Math.min(NARROW * scale, largestThatReaches(rows));
  }

  slab.rows = { distinct, gammaValue };
})((globalThis.slabsvm ??= {}));
