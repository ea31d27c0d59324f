/* controls.js: sliders and choices: they change parameters, and follow these. */
"use strict";
((slab) => {
  const element = (id) => document.getElementById(id);
  const EPSILONS = 30;
  /* The gamma slider has powers of ten of 1 / the view's squared size, as the slab has it. */
  const unit = ({ view, scales }) => (scales[0] / (view.x[1] - view.x[0])) * (scales[1] / (view.y[1] - view.y[0]));

  const SLIDERS = {
    nu_lower: { to: Number, from: (v) => v, text: (v) => v.toFixed(2) },
    nu_upper: { to: Number, from: (v) => v, text: (v) => v.toFixed(2) },
    epsilon: {
      to: (k) => Number(k) / EPSILONS,
      from: (v) => v * EPSILONS,
      text: (v) => (v === 0 ? "0: one plane" : v.toFixed(2)),
    },
    gamma: {
      to: (t, state) => Number((unit(state) * 10 ** Number(t)).toPrecision(3)),
      from: (v, state) => Math.log10(v / unit(state)),
      text: (v) => slab.words.short(v),
    },
  };

  /**
   * @param {Session} session
   * @param {(text: string) => void} say
   * @returns {(state: State, answer: object | null) => void} what has them follow the state
   */
  function bind(session, say) {
    for (const [name, { to }] of Object.entries(SLIDERS)) {
      const input = element(name);
      input.addEventListener("input", () => session.tune({ [name]: to(input.value, session.state) }, name));
      input.addEventListener("change", () => session.end());
    }
    element("gamma-rule").addEventListener("change", ({ target }) => {
      const slider = SLIDERS.gamma.to(element("gamma").value, session.state);
      session.tune({ gamma: target.value === "number" ? slider : target.value });
    });
    element("kernel").addEventListener("change", ({ target }) => {
      if (session.choose(target.value)) say(`The points were moved: ${target.value} needs coordinates that are not negative.`);
    });
    for (const radio of document.querySelectorAll("input[name=calibration]")) {
      radio.addEventListener("change", () => session.tune({ calibration: radio.value }));
    }
    element("defaults").addEventListener("click", () => {
      session.tune({ ...slab.state.DEFAULTS, kernel: session.state.parameters.kernel });
    });
    return follow;
  }

  function follow(state, answer) {
    const { parameters } = state;
    for (const [name, { from, text }] of Object.entries(SLIDERS)) {
      const input = element(name);
      const value = name === "gamma" && typeof parameters.gamma === "string" ? answer?.gamma : parameters[name];
      const isKnown = typeof value === "number";
      if (isKnown) input.value = from(value, state);
      const words = isKnown ? text(value) : "–";
      document.querySelector(`output[for=${name}]`).textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
    const hasGamma = parameters.kernel === "rbf";
    element("gamma").disabled = element("gamma-rule").disabled = !hasGamma;
    element("nu_upper").disabled = parameters.epsilon === 0;
    element("gamma-rule").value = typeof parameters.gamma === "number" ? "number" : parameters.gamma;
    element("kernel").value = parameters.kernel;
    for (const radio of document.querySelectorAll("input[name=calibration]")) radio.checked = radio.value === parameters.calibration;
  }

  slab.controls = { bind };
})((globalThis.slabsvm ??= {}));
