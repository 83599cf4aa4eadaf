// A streaming windowed-sinc resampler, for browsers and devices that do not run at the rate of the audio.
// @ts-check

const ZERO_CROSSINGS = 16;
const STEPS = 512; // table entries per zero crossing

/** One half of the kernel: sinc under a Blackman window. */
const KERNEL = (() => {
  const table = new Float32Array(ZERO_CROSSINGS * STEPS + 2);
  for (let i = 0; i <= ZERO_CROSSINGS * STEPS; i++) {
    const x = i / STEPS;
    const phase = (Math.PI * x) / ZERO_CROSSINGS;
    const window = 0.42 + 0.5 * Math.cos(phase) + 0.08 * Math.cos(2 * phase);
    table[i] = window * (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
  }
  return table;
})();

export class Resampler {
  /** @param {number} inputHz @param {number} outputHz */
  constructor(inputHz, outputHz) {
    this.step = inputHz / outputHz;
    // Below the lower of both Nyquist rates, with room for the transition band.
    this.cutoff = Math.min(1, outputHz / inputHz) * 0.94;
    this.reach = Math.ceil(ZERO_CROSSINGS / this.cutoff);
    /** Input still needed; the stream begins with silence so that the first output is at time zero. */
    this.pending = new Float32Array(this.reach);
    this.position = this.reach; // of the next output, in samples of `pending`
  }

  /** @param {Float32Array} input @returns {Float32Array} what can be computed so far */
  process(input) {
    if (this.step === 1) return input;
    const source = new Float32Array(this.pending.length + input.length);
    source.set(this.pending);
    source.set(input, this.pending.length);
    const last = source.length - this.reach;
    const count = Math.max(0, Math.ceil((last - this.position) / this.step));
    const output = new Float32Array(count);
    for (let n = 0; n < count; n++) {
      output[n] = this.at(source, this.position);
      this.position += this.step;
    }
    const used = Math.max(0, Math.floor(this.position) - this.reach);
    this.pending = source.slice(used);
    this.position -= used;
    return output;
  }

  /** @param {Float32Array} source @param {number} position */
  at(source, position) {
    const first = Math.max(0, Math.ceil(position - this.reach));
    const end = Math.min(source.length - 1, Math.floor(position + this.reach));
    let sum = 0;
    for (let i = first; i <= end; i++) {
      const x = Math.abs(i - position) * this.cutoff * STEPS;
      const index = Math.floor(x);
      if (index >= ZERO_CROSSINGS * STEPS) continue;
      const low = KERNEL[index];
      sum += source[i] * (low + (KERNEL[index + 1] - low) * (x - index));
    }
    return sum * this.cutoff;
  }
}
