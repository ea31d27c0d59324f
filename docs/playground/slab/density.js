/* density.js: how the points lie along w, with both planes, and where the star and the pointer are. */
"use strict";
((slab) => {
  const COLUMNS = 200;
  const BANDWIDTH = 0.9;

  /** A kernel density of values at so many places of a range (Silverman's bandwidth). */
  function density(values, from, to) {
    const n = values.length, sorted = Float64Array.from(values).sort(), mean = values.reduce((a, b) => a + b, 0) / n;
    const deviation = Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / n);
    const quartiles = (sorted[Math.floor(0.75 * (n - 1))] - sorted[Math.floor(0.25 * (n - 1))]) / 1.34;
    const spread = Math.min(deviation, quartiles || deviation) || (to - from) / 50;
    const width = Math.max(BANDWIDTH * spread * n ** -0.2, (to - from) / COLUMNS);
    return Float64Array.from({ length: COLUMNS }, (_, k) => {
      const at = from + ((k + 0.5) / COLUMNS) * (to - from);
      let sum = 0;
      for (const value of values) sum += Math.exp(-0.5 * ((at - value) / width) ** 2);
      return sum / (n * width);
    });
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {object | null} answer
   * @param {number | null} pointed a position to mark
   */
  function drawDensity(canvas, answer, pointed) {
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = globalThis.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d"), colours = slab.palette();
    pen.scale(ratio, ratio);
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, width, height);
    if (!answer) return;
    const values = answer.points.left_out ?? answer.points.positions;
    const star = answer.stars.positions[0], planes = [answer.rho_lower, answer.rho_upper].filter((v) => v !== null);
    const near = [...values, ...planes], low = Math.min(...near), high = Math.max(...near);
    const room = 0.25 * (high - low || Math.abs(high) || 1);
    const from = Math.max(Math.min(low, star), low - 2 * room) - room / 3;
    const to = Math.min(Math.max(high, star), high + 2 * room) + room / 3;
    const base = height - 22, x = (s) => ((s - from) / (to - from)) * width;
    const left = x(answer.rho_lower), right = answer.rho_upper === null ? width : x(answer.rho_upper);
    pen.fillStyle = colours.inside;
    pen.fillRect(left, 0, right - left, base);

    const heights = density(values, from, to), highest = heights.reduce((a, b) => Math.max(a, b));
    pen.beginPath();
    pen.moveTo(0, base);
    heights.forEach((value, k) => pen.lineTo(((k + 0.5) / COLUMNS) * width, base - (value / highest) * (base - 22)));
    pen.lineTo(width, base);
    pen.fillStyle = colours.deep;
    pen.fill();
    pen.strokeStyle = colours.known;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.strokeStyle = colours.known;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const value of values) {
      pen.moveTo(x(value), base);
      pen.lineTo(x(value), base - 6);
    }
    pen.stroke();

    pen.font = "12px system-ui, sans-serif";
    const plane = (s, colour, text, align, dashes) => {
      pen.beginPath();
      pen.setLineDash(dashes);
      pen.moveTo(x(s), 4);
      pen.lineTo(x(s), base);
      pen.strokeStyle = colour;
      pen.lineWidth = 2;
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = colours.ink;
      pen.textAlign = align;
      pen.fillText(text, x(s) + (align === "right" ? -5 : 5), 14);
      pen.textAlign = "left";
    };
    plane(answer.rho_lower, colours.lower, "lower plane", left > width / 2 || left > 90 ? "right" : "left", []);
    if (answer.rho_upper !== null) plane(answer.rho_upper, colours.upper, "upper plane", right > width - 90 ? "right" : "left", [6, 4]);

    const mark = (s, colour, size) => {
      const at = Math.min(Math.max(x(s), size), width - size);
      pen.beginPath();
      pen.moveTo(at, base + 2);
      pen.lineTo(at - size, base + 2 + 1.6 * size);
      pen.lineTo(at + size, base + 2 + 1.6 * size);
      pen.closePath();
      pen.fillStyle = colour;
      pen.fill();
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1.2;
      pen.stroke();
    };
    if (pointed !== null) mark(pointed, colours.ground, 5);
    mark(star, colours.star, 8);
  }

  slab.drawDensity = drawDensity;
})((globalThis.slabsvm ??= {}));
