// PCM16 and base64: the arithmetic between the wire and Float32 samples, and the codec used when Opus is not there.
// @ts-check

export const RATE_HZ = 24000;
export const FRAME_SAMPLES = 480; // 20 ms

/** @param {Float32Array} samples in -1..1 @returns {Uint8Array} little-endian PCM16 */
export function encodePcm16(samples) {
  const view = new DataView(new ArrayBuffer(samples.length * 2));
  for (let i = 0; i < samples.length; i++) {
    const x = Math.max(-1, Math.min(1, samples[i]));
    view.setInt16(i * 2, Math.round(x * 32767), true);
  }
  return new Uint8Array(view.buffer);
}

/** @param {Uint8Array} bytes little-endian PCM16; an odd last byte is ignored @returns {Float32Array} */
export function decodePcm16(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.byteLength >> 1);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(i * 2, true) / 32768;
  return samples;
}

/** @param {Uint8Array} bytes @returns {string} */
export function toBase64(bytes) {
  let binary = "";
  // In slices: a whole buffer as arguments would overflow the stack.
  for (let i = 0; i < bytes.length; i += 8192) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  }
  return btoa(binary);
}

/** @param {string} text @returns {Uint8Array} */
export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Float32Array} samples @returns {number} root mean square, 0 for no samples */
export function rms(samples) {
  let sum = 0;
  for (const x of samples) sum += x * x;
  return samples.length ? Math.sqrt(sum / samples.length) : 0;
}

/** Same shape as OpusEncoder of opus.js. */
export class PcmEncoder {
  /** @param {(bytes: Uint8Array) => void} onPacket */
  constructor(onPacket) {
    this.onPacket = onPacket;
  }

  /** @param {Float32Array} samples one 20 ms frame at 24 kHz */
  encode(samples) {
    this.onPacket(encodePcm16(samples));
  }

  close() {}
}

/** Same shape as OpusDecoder of opus.js. */
export class PcmDecoder {
  /**
   * @param {(item: string, samples: Float32Array, rateHz: number) => void} onSamples
   * @param {(item: string) => void} onEnd
   */
  constructor(onSamples, onEnd) {
    this.onSamples = onSamples;
    this.onEnd = onEnd;
  }

  /** @param {string} item @param {Uint8Array} bytes */
  decode(item, bytes) {
    this.onSamples(item, decodePcm16(bytes), RATE_HZ);
  }

  /** @param {string} item no more audio of it comes */
  end(item) {
    this.onEnd(item);
  }

  reset() {}
}
