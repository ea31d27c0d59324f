/* kernels.js: the kernels of two features, their matrices, and sums of them on a grid (slabsvm.kernels). */
"use strict";
((slab) => {
  const smaller = Math.min;
  const root = (a, b) => Math.sqrt(a * b);
  const harmonic = (a, b) => (a + b > 0 ? (2 * a * b) / (a + b) : 0);

  /** A kernel that is a sum of one number's over both features; limit: k / sum z_j as all features of x grow. */
  const additive = (part, limit) => ({
    value: (ax, ay, bx, by) => part(ax, bx) + part(ay, by),
    local: false,
    nonNegative: true,
    onGrid: (points, beta, across, up) => {
      const along = (j, nodes) => nodes.map((t) => points.reduce((sum, row, i) => sum + beta[i] * part(row[j], t), 0));
      return outer(along(1, up), along(0, across), (a, b) => a + b);
    },
    far: (points, beta) => {
      if (limit !== null) return limit * points.reduce((sum, [x, y], i) => sum + beta[i] * (x + y), 0);
      const slope = points.reduce((sum, [x, y], i) => sum + beta[i] * (Math.sqrt(x) + Math.sqrt(y)), 0);
      return slope === 0 ? 0 : slope * Infinity;
    },
  });

  const linear = {
    ...additive((a, b) => a * b, null),
    nonNegative: false,
    far: () => null,
  };

  /** @param {number} gamma */
  const rbf = (gamma) => ({
    value: (ax, ay, bx, by) => Math.exp(-gamma * ((ax - bx) * (ax - bx) + (ay - by) * (ay - by))),
    local: true,
    nonNegative: false,
    /* exp(-gamma d^2) is a product over features: two small tables, and a product of them. */
    onGrid: (points, beta, across, up) => {
      const found = new Float64Array(across.length * up.length);
      points.forEach(([x, y], i) => {
        if (beta[i] === 0) return;
        const wide = across.map((t) => Math.exp(-gamma * (t - x) * (t - x)));
        for (let r = 0; r < up.length; r++) {
          const value = beta[i] * Math.exp(-gamma * (up[r] - y) * (up[r] - y));
          for (let c = 0, row = r * across.length; c < across.length; c++) found[row + c] += value * wide[c];
        }
      });
      return found;
    },
    far: () => 0,
    /** log sum |beta_i| k(x_i, x), without underflow; skip is a point that does not count. */
    logMass: (points, beta, x, y, skip = -1) => {
      const exponents = points.map(([px, py], i) => {
        if (beta[i] === 0 || i === skip) return -Infinity;
        return Math.log(Math.abs(beta[i])) - gamma * ((px - x) * (px - x) + (py - y) * (py - y));
      });
      const largest = exponents.reduce((a, b) => Math.max(a, b), -Infinity);
      if (largest === -Infinity) return largest;
      return largest + Math.log(exponents.reduce((sum, e) => sum + Math.exp(e - largest), 0));
    },
  });

  /** Rows of the grid, each a value of up with all of across. */
  function outer(up, across, both) {
    const found = new Float64Array(up.length * across.length);
    up.forEach((a, r) => across.forEach((b, c) => (found[r * across.length + c] = both(a, b))));
    return found;
  }

  /** K of some points, n * n. */
  function gram(kernel, points) {
    const n = points.length, K = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      const [x, y] = points[i];
      for (let j = 0; j <= i; j++) K[i * n + j] = K[j * n + i] = kernel.value(x, y, points[j][0], points[j][1]);
    }
    return K;
  }

  /** s(x) = sum beta_i k(x_i, x) at one place. */
  const position = (kernel, points, beta, x, y) =>
    points.reduce((sum, row, i) => (beta[i] === 0 ? sum : sum + beta[i] * kernel.value(row[0], row[1], x, y)), 0);

  const named = {
    rbf,
    linear: () => linear,
    intersection: () => additive(smaller, 1),
    hellinger: () => additive(root, null),
    chi2: () => additive(harmonic, 2),
  };

  slab.kernels = { named, gram, position };
})((globalThis.slabsvm ??= {}));
