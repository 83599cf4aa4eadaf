// The microphone: asks for it, runs the capture worklet, mutes, and says in plain words why it cannot.
// @ts-check

/**
 * @typedef {{title: string, text: string}} Explanation
 * @typedef {(samples: Float32Array, level: number) => void} FrameListener 20 ms at 24 kHz, and its RMS
 */

export class MicrophoneError extends Error {
  /** @param {Explanation} explanation */
  constructor(explanation) {
    super(explanation.title);
    this.explanation = explanation;
  }
}

/** @param {string} name of the DOMException @returns {Explanation} */
export function explainMicrophone(name) {
  switch (name) {
    case "NotAllowedError":
    case "SecurityError":
      return {
        title: "The microphone is blocked",
        text: "Allow it with the icon beside the address bar (and in the system's privacy settings), then try again. Typing works without it.",
      };
    case "NotFoundError":
    case "OverconstrainedError":
      return {
        title: "No microphone found",
        text: "Connect one and try again. Typing works without it.",
      };
    case "NotReadableError":
    case "AbortError":
      return {
        title: "The microphone is busy",
        text: "Another program or tab may be using it. Close that one and try again.",
      };
    default:
      return {
        title: "The microphone did not start",
        text: `The browser said: ${name}. Try again, or type instead.`,
      };
  }
}

export class Microphone {
  /** @param {FrameListener} onFrame @param {() => void} onLost the device went away */
  constructor(onFrame, onLost) {
    this.onFrame = onFrame;
    this.onLost = onLost;
    /** @type {MediaStream | null} */
    this.stream = null;
    /** @type {AudioNode[]} */
    this.nodes = [];
    /** @type {AudioContext | null} a context of its own, where the shared one cannot take the device's rate */
    this.ownContext = null;
  }

  /**
   * Asks the user, then delivers frames until close().
   * @param {AudioContext} context
   */
  async open(context) {
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({
        audio: {
          channelCount: 1,
          echoCancellation: true,
          noiseSuppression: true,
          autoGainControl: true,
        },
      });
    } catch (error) {
      throw new MicrophoneError(explainMicrophone(/** @type {DOMException} */ (error).name));
    }
    const [track] = this.stream.getAudioTracks();
    track.addEventListener("ended", () => this.onLost());
    const source = await this.source(context, this.stream);
    const worklet = new AudioWorkletNode(source.context, "sori-microphone", { numberOfOutputs: 0 });
    worklet.port.onmessage = ({ data }) => this.onFrame(data.samples, data.level);
    source.connect(worklet);
    this.nodes = [source, worklet];
  }

  /** @param {AudioContext} context @param {MediaStream} stream */
  async source(context, stream) {
    const url = new URL("./mic-worklet.js", import.meta.url);
    try {
      const source = context.createMediaStreamSource(stream);
      await context.audioWorklet.addModule(url);
      return source;
    } catch {
      // Firefox refuses a stream whose rate differs from the context's; the worklet resamples then.
      this.ownContext = new AudioContext({ latencyHint: "interactive" });
      await this.ownContext.audioWorklet.addModule(url);
      return this.ownContext.createMediaStreamSource(stream);
    }
  }

  /** A muted microphone sends silence: the server keeps its sense of time. @param {boolean} muted */
  mute(muted) {
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = !muted;
  }

  close() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    for (const node of this.nodes) node.disconnect();
    void this.ownContext?.close();
    this.stream = null;
    this.nodes = [];
    this.ownContext = null;
  }
}
