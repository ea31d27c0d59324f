/* client.js: who answers: slabsvm, where `slabsvm explore` serves the page; else the page's own solver. */
"use strict";
((slab) => {
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content;
  const isServed = meta("solver") === "server";

  /** Little-endian float64 in base64. */
  function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float64Array(bytes.buffer);
  }

  const memory = new Map();

  /**
   * @param {Question} question
   * @returns {Promise<object>} the answer
   * @throws {slab.QuestionError} whose text says what to do
   */
  async function ask(question) {
    slab.check(question);
    if (!isServed) return slab.answer(question, memory);
    let response;
    try {
      response = await fetch("answer", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
      });
    } catch {
      throw new slab.QuestionError("slabsvm explore has ended: start it again, and reload the page.");
    }
    const answer = await response.json().catch(() => ({ error: `slabsvm explore did not answer (${response.status}).` }));
    if (!response.ok) throw new slab.QuestionError(answer.error);
    return { ...answer, positions: unpacked(answer.positions) };
  }

  /** The table that the server was started with, or null. */
  async function table() {
    return isServed ? (await fetch("table")).json() : null;
  }

  slab.client = { ask, table, isServed };
})((globalThis.slabsvm ??= {}));
