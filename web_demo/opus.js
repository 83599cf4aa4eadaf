// Opus both ways by WebCodecs: one raw 20 ms packet in, one out. Where a browser lacks it, pcm.js takes over.
// @ts-check

import { FRAME_SAMPLES, RATE_HZ } from "./pcm.js";

const FRAME_US = 20000;
/** @type {any} */
const ENCODER = {
  codec: "opus",
  sampleRate: RATE_HZ,
  numberOfChannels: 1,
  bitrate: 32000,
  opus: { format: "opus", frameDuration: FRAME_US, application: "voip" },
};
// Opus always decodes at 48 kHz; the player resamples.
const DECODER = { codec: "opus", sampleRate: 48000, numberOfChannels: 1 };

/** @returns {Promise<boolean>} whether this browser encodes and decodes Opus as Sori needs it */
export async function isOpusSupported() {
  if (!("AudioEncoder" in globalThis) || !("AudioDecoder" in globalThis)) return false;
  try {
    const [encoder, decoder] = await Promise.all([
      AudioEncoder.isConfigSupported(ENCODER),
      AudioDecoder.isConfigSupported(DECODER),
    ]);
    return Boolean(encoder.supported && decoder.supported);
  } catch {
    return false; // some browsers throw on configurations they do not know
  }
}

export class OpusEncoder {
  /**
   * @param {(packet: Uint8Array) => void} onPacket
   * @param {(error: Error) => void} onError the encoder is unusable afterwards
   */
  constructor(onPacket, onError) {
    this.timestamp = 0;
    this.encoder = new AudioEncoder({
      output: (chunk) => {
        const packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(packet);
        onPacket(packet);
      },
      error: onError,
    });
    this.encoder.configure(ENCODER);
  }

  /** @param {Float32Array} samples one 20 ms frame at 24 kHz */
  encode(samples) {
    if (this.encoder.state !== "configured") return;
    const audio = new AudioData({
      format: "f32-planar",
      sampleRate: RATE_HZ,
      numberOfFrames: FRAME_SAMPLES,
      numberOfChannels: 1,
      timestamp: this.timestamp,
      data: /** @type {Float32Array<ArrayBuffer>} */ (samples),
    });
    this.timestamp += FRAME_US;
    this.encoder.encode(audio);
    audio.close();
  }

  close() {
    if (this.encoder.state !== "closed") this.encoder.close();
  }
}

/** One decoder for each reply, because each reply is a stream of its own. */
export class OpusDecoder {
  /**
   * @param {(item: string, samples: Float32Array, rateHz: number) => void} onSamples
   * @param {(item: string) => void} onEnd called after the last samples of an ended item
   * @param {(error: Error) => void} onError
   */
  constructor(onSamples, onEnd, onError) {
    this.onSamples = onSamples;
    this.onEnd = onEnd;
    this.onError = onError;
    /** @type {Map<string, {decoder: AudioDecoder, timestamp: number}>} */
    this.streams = new Map();
  }

  /** @param {string} item @param {Uint8Array} packet */
  decode(item, packet) {
    let stream = this.streams.get(item);
    if (!stream) {
      stream = { decoder: this.open(item), timestamp: 0 };
      this.streams.set(item, stream);
    }
    if (stream.decoder.state !== "configured") return;
    const data = /** @type {Uint8Array<ArrayBuffer>} */ (packet);
    stream.decoder.decode(
      new EncodedAudioChunk({ type: "key", timestamp: stream.timestamp, duration: FRAME_US, data }),
    );
    stream.timestamp += FRAME_US;
  }

  /** @param {string} item */
  open(item) {
    const decoder = new AudioDecoder({
      output: (audio) => {
        const samples = new Float32Array(audio.numberOfFrames);
        audio.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
        const rateHz = audio.sampleRate;
        audio.close();
        this.onSamples(item, samples, rateHz);
      },
      error: this.onError,
    });
    decoder.configure(DECODER);
    return decoder;
  }

  /** @param {string} item no more packets of it come */
  end(item) {
    const decoder = this.streams.get(item)?.decoder;
    if (decoder?.state !== "configured") {
      this.onEnd(item);
      return;
    }
    decoder.flush().then(
      () => {
        this.onEnd(item);
        this.close(item);
      },
      () => {}, // closed meanwhile by reset(): the item was interrupted
    );
  }

  /** @param {string} item */
  close(item) {
    const decoder = this.streams.get(item)?.decoder;
    this.streams.delete(item);
    if (decoder && decoder.state !== "closed") decoder.close();
  }

  /** Drops everything that is being decoded. */
  reset() {
    for (const item of [...this.streams.keys()]) this.close(item);
  }
}
