// Audio thread of the microphone: whatever the device gives becomes 20 ms frames of 24 kHz mono.
// @ts-check

import { FRAME_SAMPLES, RATE_HZ, rms } from "./pcm.js";
import { Resampler } from "./resampler.js";

/** @type {any} */
const scope = globalThis;

class MicrophoneProcessor extends scope.AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(scope.sampleRate, RATE_HZ);
    this.frame = new Float32Array(FRAME_SAMPLES);
    this.filled = 0;
  }

  /** @param {Float32Array[][]} inputs */
  process(inputs) {
    const channel = inputs[0]?.[0];
    if (!channel) return true;
    for (const sample of this.resampler.process(channel)) {
      this.frame[this.filled++] = sample;
      if (this.filled < FRAME_SAMPLES) continue;
      const samples = this.frame;
      this.frame = new Float32Array(FRAME_SAMPLES);
      this.filled = 0;
      this.port.postMessage({ samples, level: rms(samples) }, [samples.buffer]);
    }
    return true;
  }
}

scope.registerProcessor("sori-microphone", MicrophoneProcessor);
