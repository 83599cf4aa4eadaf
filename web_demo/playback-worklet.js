// Audio thread of the reply: plays the queue, reports progress about every 20 ms, and taps what it has rendered.
// @ts-check

import { rms } from "./pcm.js";
import { PlaybackQueue } from "./playback-queue.js";

const REPORT_FRAMES = 512;

/** @type {any} */
const scope = globalThis;

class PlaybackProcessor extends scope.AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = new PlaybackQueue(scope.sampleRate);
    this.report = new Float32Array(REPORT_FRAMES);
    this.filled = 0;
    this.port.onmessage = (/** @type {MessageEvent} */ { data }) => this.receive(data);
  }

  /** @param {any} message */
  receive(message) {
    if (message.type === "push") this.queue.push(message.item, message.samples, message.rateHz);
    else if (message.type === "end") this.queue.end(message.item);
    else if (message.type === "pause") this.queue.pause();
    else if (message.type === "resume") this.queue.resume();
    else if (message.type === "flush") {
      const cuts = this.queue.flush();
      this.port.postMessage({ type: "flushed", id: message.id, cuts });
    }
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs */
  process(_inputs, outputs) {
    const [first, ...others] = outputs[0];
    const events = this.queue.render(first);
    for (const channel of others) channel.set(first);
    for (const event of events) {
      this.port.postMessage({ ...event, frame: scope.currentFrame + event.offset });
    }
    this.tap(first);
    return true;
  }

  /** @param {Float32Array} block */
  tap(block) {
    this.report.set(block, this.filled);
    this.filled += block.length;
    if (this.filled < REPORT_FRAMES) return;
    const samples = this.report;
    this.report = new Float32Array(REPORT_FRAMES);
    this.filled = 0;
    const frame = scope.currentFrame + block.length - REPORT_FRAMES; // of the first sample
    this.port.postMessage(
      { type: "rendered", frame, samples, level: rms(samples), position: this.queue.position() },
      [samples.buffer],
    );
  }
}

scope.registerProcessor("sori-playback", PlaybackProcessor);
