// Plays replies through the playback worklet, and knows what was really heard of each.
// @ts-check

/**
 * @typedef {import("./playback-queue.js").Cut} Cut
 * @typedef {object} PlayerListener
 * @property {(item: string, heardAt: number) => void} onStarted heardAt: when its first sample leaves the loudspeaker, on the clock of performance.now()
 * @property {(item: string) => void} onDrained played to its end
 * @property {(level: number, position: Cut | null) => void} onRendered about every 20 ms
 */

/** How much of the rendered audio the tap keeps. */
const TAP_SECONDS = 60;

export class Player {
  /** @param {AudioContext} context @param {PlayerListener} listener @param {boolean} tapped keep what was rendered, for tests */
  constructor(context, listener, tapped = false) {
    this.context = context;
    this.listener = listener;
    /** @type {{frame: number, samples: Float32Array}[] | null} */
    this.tap = tapped ? [] : null;
    /** @type {Set<string>} */
    this.active = new Set(); // items with audio that is neither played nor dropped
    this.underruns = 0;
    this.flushes = 0;
    /** @type {Map<number, (cuts: Cut[]) => void>} */
    this.flushing = new Map();
    /** @type {AudioWorkletNode | null} */
    this.node = null;
  }

  async open() {
    await this.context.audioWorklet.addModule(new URL("./playback-worklet.js", import.meta.url));
    this.node = new AudioWorkletNode(this.context, "sori-playback", {
      numberOfInputs: 0,
      outputChannelCount: [2],
    });
    this.node.port.onmessage = ({ data }) => this.receive(data);
    this.node.connect(this.context.destination);
  }

  /** @param {string} item @param {Float32Array} samples @param {number} rateHz */
  push(item, samples, rateHz) {
    this.active.add(item);
    this.node?.port.postMessage({ type: "push", item, samples, rateHz }, [samples.buffer]);
  }

  /** No more audio of this item comes. @param {string} item */
  end(item) {
    this.node?.port.postMessage({ type: "end", item });
  }

  /** Stands still, and keeps what is not played yet. */
  pause() {
    this.node?.port.postMessage({ type: "pause" });
  }

  /** Goes on where it was paused. */
  resume() {
    this.node?.port.postMessage({ type: "resume" });
  }

  /** Stops at once. @returns {Promise<Cut[]>} what was unfinished, and how much of it was played */
  flush() {
    this.active.clear();
    const node = this.node;
    if (!node) return Promise.resolve([]);
    const id = ++this.flushes;
    return new Promise((resolve) => {
      this.flushing.set(id, resolve);
      node.port.postMessage({ type: "flush", id });
    });
  }

  /** @returns {number} the frame the audio thread is at */
  get frame() {
    return Math.round(this.context.currentTime * this.context.sampleRate);
  }

  /** @param {any} message */
  receive(message) {
    switch (message.type) {
      case "started":
        return this.listener.onStarted(message.item, this.heardAt(message.frame));
      case "drained":
        this.active.delete(message.item);
        return this.listener.onDrained(message.item);
      case "underrun":
        this.underruns += 1;
        return;
      case "flushed":
        this.flushing.get(message.id)?.(message.cuts);
        this.flushing.delete(message.id);
        return;
      case "rendered":
        this.keep(message.frame, message.samples);
        return this.listener.onRendered(message.level, message.position);
    }
  }

  /** @param {number} frame @returns {number} */
  heardAt(frame) {
    const stamp = this.context.getOutputTimestamp?.();
    if (!stamp?.performanceTime || stamp.contextTime === undefined) return performance.now();
    return stamp.performanceTime + (frame / this.context.sampleRate - stamp.contextTime) * 1000;
  }

  /** @param {number} frame @param {Float32Array} samples */
  keep(frame, samples) {
    if (!this.tap) return;
    this.tap.push({ frame, samples });
    const oldest = frame - TAP_SECONDS * this.context.sampleRate;
    while (this.tap[0].frame < oldest) this.tap.shift();
  }

  /** What the worklet has rendered lately. @returns {{rateHz: number, frame: number, samples: number[]}} frame: of the first sample */
  played() {
    const blocks = this.tap ?? [];
    return {
      rateHz: this.context.sampleRate,
      frame: blocks[0]?.frame ?? 0,
      samples: blocks.flatMap((block) => Array.from(block.samples, (x) => Math.round(x * 1e4) / 1e4)),
    };
  }

  close() {
    this.node?.disconnect();
    this.node = null;
    for (const resolve of this.flushing.values()) resolve([]);
    this.flushing.clear();
  }
}
