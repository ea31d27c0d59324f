/* matrix.js: dense matrices, row by row in one Float64Array, and their Cholesky factors. */
"use strict";
((slab) => {
  /** The sum of a[i + k] * b[j + k] over k < n; four sums, since one would wait for itself. */
  function dot(a, i, b, j, n) {
    let s0 = 0, s1 = 0, s2 = 0, s3 = 0, k = 0;
    for (; k + 3 < n; k += 4) {
      s0 += a[i + k] * b[j + k];
      s1 += a[i + k + 1] * b[j + k + 1];
      s2 += a[i + k + 2] * b[j + k + 2];
      s3 += a[i + k + 3] * b[j + k + 3];
    }
    for (; k < n; k++) s0 += a[i + k] * b[j + k];
    return s0 + s1 + (s2 + s3);
  }

  /**
   * Put the lower factor of a symmetric matrix in its lower triangle.
   * @param {Float64Array} a n * n values; what is above the diagonal is neither read nor written
   * @param {number} n
   * @returns {boolean} false where a pivot is not positive
   */
  function cholesky(a, n) {
    for (let i = 0; i < n; i++) {
      const row = i * n;
      for (let j = 0; j < i; j++) a[row + j] = (a[row + j] - dot(a, row, a, j * n, j)) / a[j * n + j];
      const pivot = a[row + i] - dot(a, row, a, row, i);
      if (!(pivot > 0)) return false;
      a[row + i] = Math.sqrt(pivot);
    }
    return true;
  }

  /** Put L^-1 b in the place of b. */
  function solveLower(l, n, b) {
    for (let i = 0; i < n; i++) b[i] = (b[i] - dot(l, i * n, b, 0, i)) / l[i * n + i];
    return b;
  }

  /** Put L^-T b in the place of b. */
  function solveUpper(l, n, b) {
    for (let i = n - 1; i >= 0; i--) {
      const value = (b[i] /= l[i * n + i]);
      for (let j = 0, row = i * n; j < i; j++) b[j] -= value * l[row + j];
    }
    return b;
  }

  /**
   * Solve a small system of equations by elimination.
   * @param {number[][]} a its rows, which are changed
   * @param {number[]} b
   * @returns {number[] | null} null where it is singular
   */
  function solved(a, b) {
    const n = b.length, x = b.slice();
    for (let k = 0; k < n; k++) {
      let best = k;
      for (let i = k + 1; i < n; i++) if (Math.abs(a[i][k]) > Math.abs(a[best][k])) best = i;
      if (!(Math.abs(a[best][k]) > 0)) return null;
      [a[k], a[best]] = [a[best], a[k]];
      [x[k], x[best]] = [x[best], x[k]];
      for (let i = k + 1; i < n; i++) {
        const row = a[i], above = a[k], factor = row[k] / above[k];
        if (factor === 0) continue;
        for (let j = k; j < n; j++) row[j] -= factor * above[j];
        x[i] -= factor * x[k];
      }
    }
    for (let k = n - 1; k >= 0; k--) {
      for (let j = k + 1; j < n; j++) x[k] -= a[k][j] * x[j];
      x[k] /= a[k][k];
    }
    return x;
  }

  /** Return the product of an n * n matrix and a vector. */
  function times(a, n, x) {
    const y = new Float64Array(n);
    for (let i = 0; i < n; i++) y[i] = dot(a, i * n, x, 0, n);
    return y;
  }

  slab.matrix = { dot, cholesky, solveLower, solveUpper, solved, times };
})((globalThis.slabsvm ??= {}));
