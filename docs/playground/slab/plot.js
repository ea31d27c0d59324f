/* plot.js: the picture of the plane: accepted region, both planes, points, support vectors, the star, the cursor. */
"use strict";
((slab) => {
  const { contour, between } = slab.contours;
  const MOST_NODES = 256;
  const POINT = 4;

  /** The colours of the style sheet, by the names of its variables. */
  function palette() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    return Object.fromEntries(
      ["ink", "soft", "line", "ground", "inside", "deep", "lower", "upper", "known", "novel", "star"].map((n) => [n, read(n)]),
    );
  }

  /** "#rrggbb" as three numbers. */
  const channels = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

  /** Round numbers to write on an axis. */
  function ticks([from, to], most) {
    const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
    const found = [];
    for (let value = Math.ceil(from / step) * step; value <= to; value += step) found.push(Number(value.toPrecision(12)));
    return found;
  }

  class Plot {
    /** @param {HTMLCanvasElement} canvas */
    constructor(canvas) {
      this.canvas = canvas;
      this.answer = null;
      this.cursor = null;
      this.selected = null;
      this.image = document.createElement("canvas");
    }

    get size() {
      return [this.canvas.clientWidth, this.canvas.clientHeight];
    }

    /** The grid to ask for: one node in so many pixels. */
    grid({ view }, pixels) {
      const [width, height] = this.size;
      const count = (length) => Math.min(Math.max(Math.round(length / pixels), 8), MOST_NODES);
      return { x: [...view.x, count(width)], y: [...view.y, count(height)] };
    }

    toPixels([x, y], { view }) {
      const [width, height] = this.size;
      return [
        ((x - view.x[0]) / (view.x[1] - view.x[0])) * width,
        height - ((y - view.y[0]) / (view.y[1] - view.y[0])) * height,
      ];
    }

    toPlace([px, py], { view }) {
      const [width, height] = this.size;
      return [
        view.x[0] + (px / width) * (view.x[1] - view.x[0]),
        view.y[0] + (1 - py / height) * (view.y[1] - view.y[0]),
      ];
    }

    /** The position along w at a place, from the answer's grid; null where there is none. */
    positionAt([x, y]) {
      if (!this.answer) return null;
      const { grid, positions } = this.answer, cell = (t, [from, to, count]) => ((t - from) / (to - from)) * (count - 1);
      return between(positions, grid.x[2], grid.y[2], cell(x, grid.x), cell(y, grid.y));
    }

    /** @param {State} state */
    draw(state) {
      const [width, height] = this.size, ratio = globalThis.devicePixelRatio || 1;
      if (!width) return;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      const pen = this.canvas.getContext("2d"), colours = palette();
      pen.scale(ratio, ratio);
      pen.fillStyle = colours.ground;
      pen.fillRect(0, 0, width, height);
      if (this.answer) {
        this.drawRegion(pen, state, colours);
        this.drawAxes(pen, state, colours);
        this.drawPlane(pen, state, this.answer.rho_lower, colours.lower, []);
        if (this.answer.rho_upper !== null) this.drawPlane(pen, state, this.answer.rho_upper, colours.upper, [7, 4]);
      } else this.drawAxes(pen, state, colours);
      this.drawPoints(pen, state, colours);
      this.drawStar(pen, state, colours);
      if (this.cursor) this.drawCursor(pen, state, colours);
    }

    /** Tint what is accepted, the more the farther inside. */
    drawRegion(pen, state, colours) {
      const { grid, positions, rho_lower: lower, rho_upper: upper } = this.answer;
      const [columns, rows] = [grid.x[2], grid.y[2]], [width, height] = this.size.map((v) => Math.round(v));
      const highest = upper ?? positions.reduce((a, b) => Math.max(a, b), lower + Number.EPSILON);
      const [edge, deep] = [channels(colours.inside), channels(colours.deep)];
      const image = new ImageData(width, height), data = image.data;
      /* The view may have changed since the answer's grid was asked for. */
      const cells = (from, to, [start, end, count]) => (i, length) =>
        ((from + ((i + 0.5) / length) * (to - from) - start) / (end - start)) * (count - 1);
      const column = cells(...state.view.x, grid.x), row = cells(...state.view.y, grid.y);
      const across = Float64Array.from({ length: width }, (_, i) => column(i, width));
      for (let j = 0; j < height; j++) {
        const y = row(height - 1 - j, height), r = Math.min(Math.max(Math.floor(y), 0), rows - 2), v = y - r;
        for (let i = 0, at = 4 * j * width; i < width; i++, at += 4) {
          const x = across[i], c = Math.min(Math.max(Math.floor(x), 0), columns - 2), u = x - c, k = r * columns + c;
          const s =
            (positions[k] * (1 - u) + positions[k + 1] * u) * (1 - v) +
            (positions[k + columns] * (1 - u) + positions[k + columns + 1] * u) * v;
          if (!(s >= lower) || s > highest) continue;
          const t = Math.sqrt(Math.min((s - lower) / (highest - lower), 1));
          data[at] = edge[0] + t * (deep[0] - edge[0]);
          data[at + 1] = edge[1] + t * (deep[1] - edge[1]);
          data[at + 2] = edge[2] + t * (deep[2] - edge[2]);
          data[at + 3] = 255;
        }
      }
      this.image.width = width;
      this.image.height = height;
      this.image.getContext("2d").putImageData(image, 0, 0);
      pen.drawImage(this.image, 0, 0, this.size[0], this.size[1]);
    }

    drawPlane(pen, state, level, colour, dashes) {
      const { grid, positions } = this.answer;
      const place = (x, y) =>
        this.toPixels(
          [grid.x[0] + (x / (grid.x[2] - 1)) * (grid.x[1] - grid.x[0]), grid.y[0] + (y / (grid.y[2] - 1)) * (grid.y[1] - grid.y[0])],
          state,
        );
      pen.beginPath();
      contour(positions, grid.x[2], grid.y[2], level, (ax, ay, bx, by) => {
        pen.moveTo(...place(ax, ay));
        pen.lineTo(...place(bx, by));
      });
      pen.strokeStyle = colour;
      pen.lineWidth = 2;
      /* Segments are short: what is dashed is every other few of them. */
      pen.setLineDash(dashes.length ? [2.5, 2.5] : []);
      pen.stroke();
      pen.setLineDash([]);
    }

    drawAxes(pen, state, colours) {
      const [width, height] = this.size;
      pen.font = "12px system-ui, sans-serif";
      pen.fillStyle = colours.soft;
      pen.strokeStyle = colours.line;
      pen.lineWidth = 1;
      pen.beginPath();
      for (const x of ticks(state.view.x, width / 90)) {
        const [px] = this.toPixels([x, 0], state);
        pen.moveTo(px, height);
        pen.lineTo(px, height - 5);
        if (px > 30 && px < width - 60) pen.fillText(String(x), px - 4, height - 9);
      }
      for (const y of ticks(state.view.y, height / 80)) {
        const [, py] = this.toPixels([0, y], state);
        pen.moveTo(0, py);
        pen.lineTo(5, py);
        if (py > 30 && py < height - 26) pen.fillText(String(y), 8, py + 4);
      }
      pen.stroke();
      const [across, up] = state.names.map((name, j) => slab.words.axis(name, state.scales[j]));
      pen.fillText(up, 8, 16);
      pen.textAlign = "right";
      /* Above the ticks' numbers. */
      pen.fillText(across, width - 8, height - 25);
      pen.textAlign = "left";
    }

    drawPoints(pen, state, colours) {
      const { points } = state, judged = this.answer?.points;
      const isCurrent = judged && judged.accepted.length === points.length;
      points.forEach((point, i) => {
        const [x, y] = this.toPixels(point, state);
        const isNormal = !isCurrent || judged.normal[i];
        pen.beginPath();
        if (isNormal) {
          pen.arc(x, y, POINT, 0, 2 * Math.PI);
          pen.fillStyle = colours.known;
          pen.fill();
        } else {
          pen.moveTo(x - POINT, y - POINT);
          pen.lineTo(x + POINT, y + POINT);
          pen.moveTo(x - POINT, y + POINT);
          pen.lineTo(x + POINT, y - POINT);
          pen.strokeStyle = colours.novel;
          pen.lineWidth = 2.4;
          pen.stroke();
        }
        if (isCurrent && judged.coefficients[i] !== 0) this.ring(pen, x, y, POINT + 3, colours.ink, 1);
        if (this.selected === i) this.ring(pen, x, y, POINT + 7, colours.ink, 3);
      });
    }

    ring(pen, x, y, radius, colour, width) {
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.stroke();
    }

    drawStar(pen, state, colours) {
      const [x, y] = this.toPixels(state.star, state);
      pen.beginPath();
      for (let k = 0; k < 10; k++) {
        const turn = (Math.PI * k) / 5 - Math.PI / 2, radius = k % 2 ? 5 : 12;
        pen.lineTo(x + radius * Math.cos(turn), y + radius * Math.sin(turn));
      }
      pen.closePath();
      pen.fillStyle = colours.star;
      pen.fill();
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 1.5;
      pen.stroke();
      if (this.selected === -1) this.ring(pen, x, y, 17, colours.ink, 3);
      const decision = this.answer?.stars.decisions[0];
      const text = decision === undefined ? "" : decision >= 0 ? "accepted" : "rejected";
      pen.font = "600 13px system-ui, sans-serif";
      const wide = pen.measureText(text).width, left = x + 18 + wide > this.size[0] ? x - 18 - wide : x + 18;
      pen.lineWidth = 4;
      pen.strokeStyle = colours.ground;
      pen.strokeText(text, left, y + 4);
      pen.fillStyle = colours.ink;
      pen.fillText(text, left, y + 4);
    }

    drawCursor(pen, state, colours) {
      const [x, y] = this.toPixels(this.cursor, state);
      pen.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        pen.moveTo(x + 5 * dx, y + 5 * dy);
        pen.lineTo(x + 16 * dx, y + 16 * dy);
      }
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.stroke();
    }
  }

  slab.Plot = Plot;
  slab.palette = palette;
})((globalThis.slabsvm ??= {}));
