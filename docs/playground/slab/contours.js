/* contours.js: where a function on a grid crosses a level, as line segments (marching squares). */
"use strict";
((slab) => {
  /* Which two sides of a cell each of its kinds is crossed at: 0 below, 1 right, 2 above, 3 left. */
  const SIDES = [
    [], [[3, 0]], [[0, 1]], [[3, 1]], [[1, 2]], [], [[0, 2]], [[3, 2]],
    [[2, 3]], [[2, 0]], [], [[2, 1]], [[1, 3]], [[1, 0]], [[0, 3]], [],
  ];

  /**
   * @param {Float64Array} values row by row
   * @param {number} columns
   * @param {number} rows
   * @param {number} level
   * @param {(ax: number, ay: number, bx: number, by: number) => void} draw in units of cells
   */
  function contour(values, columns, rows, level, draw) {
    for (let r = 0; r + 1 < rows; r++) {
      for (let c = 0; c + 1 < columns; c++) {
        const i = r * columns + c;
        const corners = [values[i], values[i + 1], values[i + columns + 1], values[i + columns]];
        const kind = corners.reduce((sum, value, k) => sum + (value >= level ? 1 << k : 0), 0);
        if (kind === 0 || kind === 15) continue;
        const part = (a, b) => (level - corners[a]) / (corners[b] - corners[a]);
        const at = (side) =>
          [
            () => [c + part(0, 1), r],
            () => [c + 1, r + part(1, 2)],
            () => [c + part(3, 2), r + 1],
            () => [c, r + part(0, 3)],
          ][side]();
        let pairs = SIDES[kind];
        if (kind === 5 || kind === 10) {
          /* Two opposite corners are above: the middle says whether they are joined. */
          const joined = (corners[0] + corners[1] + corners[2] + corners[3]) / 4 >= level;
          pairs = joined === (kind === 5) ? [[3, 2], [0, 1]] : [[3, 0], [1, 2]];
        }
        for (const [from, to] of pairs) draw(...at(from), ...at(to));
      }
    }
  }

  /** The value at a place between the nodes, in units of cells. */
  function between(values, columns, rows, x, y) {
    const c = Math.min(Math.max(Math.floor(x), 0), columns - 2), r = Math.min(Math.max(Math.floor(y), 0), rows - 2);
    const u = x - c, v = y - r, i = r * columns + c;
    const below = values[i] * (1 - u) + values[i + 1] * u;
    const above = values[i + columns] * (1 - u) + values[i + columns + 1] * u;
    return below * (1 - v) + above * v;
  }

  slab.contours = { contour, between };
})((globalThis.slabsvm ??= {}));
