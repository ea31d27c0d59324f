/* link.js: a state as the fragment of a link, and back; what is in it never leaves the browser. */
"use strict";
((slab) => {
  const { DEFAULTS, LARGEST, MOST_DECIMALS, MOST_POINTS, isPlace, isView } = slab.state;
  const KEYS = { k: "kernel", g: "gamma", l: "nu_lower", u: "nu_upper", e: "epsilon", o: "calibration" };

  /** Coordinates as whole numbers in base 36 of a power of ten: "3:1ab.-2f;..." has three decimals. */
  function packed(rows) {
    let digits = 0;
    const fits = () => rows.every((row) => row.every((v) => Number(v.toFixed(digits)) === v));
    while (digits < MOST_DECIMALS && !fits()) digits++;
    const whole = (v) => Math.round(v * 10 ** digits).toString(36);
    return `${digits}:${rows.map((row) => row.map(whole).join(".")).join(";")}`;
  }

  function unpacked(text) {
    const [digits, rest] = text.split(":"), scale = 10 ** Number(digits);
    if (!rest) return [];
    return rest.split(";").map((row) => row.split(".").map((whole) => parseInt(whole, 36) / scale));
  }

  /** @param {State} state */
  function encode({ points, star, parameters, view, names, scales }) {
    const found = new URLSearchParams();
    for (const [key, name] of Object.entries(KEYS)) found.set(key, String(parameters[name]));
    found.set("v", [...view.x, ...view.y].join(" "));
    for (const name of names) found.append("n", name);
    if (scales.some((scale) => scale !== 1)) found.set("d", scales.join(" "));
    found.set("s", packed([star]));
    found.set("p", packed(points));
    return `#${found}`;
  }

  /**
   * The state of a fragment; null where it holds none.
   * @param {string} fragment
   * @returns {State | null}
   */
  function decode(fragment) {
    const found = new URLSearchParams(fragment.replace(/^#/, ""));
    if (!found.has("p")) return null;
    const parameters = { ...DEFAULTS };
    for (const [key, name] of Object.entries(KEYS)) {
      const text = found.get(key);
      if (text === null) continue;
      const number = Number(text);
      parameters[name] = typeof DEFAULTS[name] === "number" || (name === "gamma" && text && number > 0) ? number : text;
    }
    const [x0, x1, y0, y1] = (found.get("v") ?? "").split(" ").map(Number);
    const points = unpacked(found.get("p")), stars = unpacked(found.get("s") ?? "0:0.0");
    const view = { x: [x0, x1], y: [y0, y1] };
    const scales = (found.get("d") ?? "1 1").split(" ").map(Number);
    const isGood =
      points.length <= MOST_POINTS &&
      stars.length === 1 &&
      [...points, ...stars].every(isPlace) &&
      isView(view) &&
      isPlace(scales) &&
      scales.every((scale) => scale > 0) &&
      Object.hasOwn(slab.kernels.named, parameters.kernel) &&
      ["auto", "training"].includes(parameters.calibration) &&
      (parameters.gamma <= LARGEST || ["neighbours", "scale"].includes(parameters.gamma)) &&
      [parameters.nu_lower, parameters.nu_upper].every((nu) => nu > 0 && nu < 1) &&
      Number.isFinite(parameters.epsilon);
    if (!isGood) return null;
    const names = found.getAll("n");
    return { points, star: stars[0], parameters, view, scales, names: names.length === 2 ? names : ["x", "y"] };
  }

  slab.link = { encode, decode };
})((globalThis.slabsvm ??= {}));
