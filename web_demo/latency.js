// The latency readout: how long the voice took to answer, and where the time went.
// @ts-check

/** The server's points of a turn, in order, each with what happened before it. */
export const STEPS = [
  { point: "turn_end", name: "waiting for you to finish", colour: "var(--listen)" },
  { point: "transcript", name: "hearing", colour: "var(--hear)" },
  { point: "first_text", name: "thinking", colour: "var(--think)" },
  { point: "first_audio_sent", name: "voice", colour: "var(--voice)" },
];
const WIRE = { name: "network and loudspeaker", colour: "var(--wire)" };

/**
 * Cut a turn at the server's points; what the server did not see is the wire and the loudspeaker.
 * @param {number} totalMs from the end of the voice to the first sound heard
 * @param {Record<string, number>} timings of `response.sori.timings_ms`
 */
export function stepsOf(totalMs, timings) {
  let before = 0;
  const steps = [];
  for (const { point, name, colour } of STEPS) {
    if (!(point in timings)) continue;
    steps.push({ name, colour, ms: Math.max(0, timings[point] - before) });
    before = Math.max(before, timings[point]);
  }
  steps.push({ ...WIRE, ms: Math.max(0, totalMs - before) });
  return steps;
}

/** @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export class LatencyReadout {
  /** @param {Document} page */
  constructor(page) {
    this.page = page;
    /** @type {number[]} */
    this.totals = [];
  }

  /** @param {number} totalMs @param {Record<string, number>} timings */
  show(totalMs, timings) {
    this.totals.push(totalMs);
    const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (this.page.getElementById(id));
    find("latency").hidden = false;
    find("latency-last").textContent = String(Math.round(totalMs));
    const count = this.totals.length;
    find("latency-median").textContent =
      count > 1 ? `· median of ${count} turns ${Math.round(median(this.totals))} ms` : "";
    const steps = stepsOf(totalMs, timings);
    find("latency-bar").replaceChildren(
      ...steps.map((step) => {
        const part = this.page.createElement("i");
        part.style.cssText = `flex-grow:${step.ms};background:${step.colour}`;
        return part;
      }),
    );
    find("latency-legend").replaceChildren(
      ...steps.map((step) => {
        const entry = this.page.createElement("li");
        const dot = this.page.createElement("i");
        dot.style.background = step.colour;
        entry.append(dot, `${step.name} ${Math.round(step.ms)}`);
        return entry;
      }),
    );
  }
}
