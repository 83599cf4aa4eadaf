// The page: wires microphone, codec, socket, player and what is seen.
// @ts-check

import { LatencyReadout } from "./latency.js";
import { Microphone, MicrophoneError } from "./microphone.js";
import { isOpusSupported, OpusDecoder, OpusEncoder } from "./opus.js";
import { PcmDecoder, PcmEncoder } from "./pcm.js";
import { Player } from "./player.js";
import { RealtimeClient } from "./realtime-client.js";
import { serverIsReady } from "./readiness.js";
import { Transcript } from "./transcript.js";
import { Visual } from "./visual.js";

const VOICES = "marin alloy ash ballad cedar coral echo sage shimmer verse".split(" ");
const VOICE_LEVEL = 0.015; // RMS from which a frame of the microphone counts as voice
const STATUS = {
  idle: "Press the circle and say something.",
  connecting: "Connecting …",
  listening: "I'm listening.",
  hearing: "Go on …",
  thinking: "Let me think …",
  speaking: "Speak to interrupt.",
  error: "",
};

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));
/** @type {HTMLSelectElement} */ const voice = find("voice");
/** @type {HTMLSelectElement} */ const speed = find("speed");
/** @type {HTMLSelectElement} */ const plan = find("plan");
/** @type {HTMLButtonElement} */ const mute = find("mute");
/** @type {HTMLButtonElement} */ const stopButton = find("stop");
/** @type {HTMLInputElement} */ const text = find("text");
voice.append(...VOICES.map((name) => new Option(name)));

const visual = new Visual(find("visual"));
const transcript = new Transcript(find("transcript"));
const readout = new LatencyReadout(document);
const tapped = new URLSearchParams(location.search).has("tap");

/** @typedef {"idle" | "connecting" | "listening" | "hearing" | "thinking" | "speaking" | "error"} State */

/** @param {State} state @param {string} [words] */
function enter(state, words) {
  document.body.dataset.state = visual.state = state;
  const resting = state === "idle" || state === "error";
  find("status").textContent = words ?? STATUS[state];
  find("talk-label").textContent = resting ? (state === "error" ? "Try again" : "Talk") : "";
  mute.disabled = stopButton.disabled = resting;
  if (state !== "error") find("problem").hidden = true;
}

/** @param {string} title @param {string} words */
function explain(title, words) {
  find("problem-title").textContent = title;
  find("problem-text").textContent = words;
  find("problem").hidden = false;
}

/** One conversation, from the press of the circle to its end. */
class Conversation {
  constructor() {
    this.over = new AbortController();
    this.voiceEnd = 0; // performance.now() of the last frame with voice
    this.asked = 0; // the same, of the turn that is being answered
    this.heard = 0; // milliseconds from there to the first sound of the reply
    this.context = new AudioContext({ sampleRate: 24000, latencyHint: "interactive" });
    this.microphone = new Microphone(
      (samples, level) => this.hear(samples, level),
      () => explain("The microphone is gone", "Connect it again and press the circle."),
    );
    this.player = new Player(this.context, this, tapped);
    this.client = new RealtimeClient(this);
    /** @type {any} */ this.encoder = null;
    /** @type {any} */ this.decoder = null;
    this.opus = false;
  }

  settings() {
    return {
      voice: voice.value,
      speed: Number(speed.value),
      latencyFirst: plan.value === "latency",
      opus: this.opus,
    };
  }

  async start() {
    enter("connecting");
    await this.context.resume();
    await serverIsReady(this.over.signal, (why) => enter("connecting", `Waking up: ${why} …`));
    await this.player.open();
    this.opus = await isOpusSupported();
    this.encoder = this.opus
      ? new OpusEncoder((packet) => this.client.append(packet), (error) => this.fail(error.message))
      : new PcmEncoder((bytes) => this.client.append(bytes));
    /** @type {(item: string, samples: Float32Array, rateHz: number) => void} */
    const play = (item, samples, rateHz) => this.player.push(item, samples, rateHz);
    /** @type {(item: string) => void} */
    const end = (item) => this.player.end(item);
    this.decoder = this.opus
      ? new OpusDecoder(play, end, (error) => this.fail(error.message))
      : new PcmDecoder(play, end);
    find("codec").textContent = this.opus ? "Opus" : "PCM 24 kHz";
    find("codec").hidden = false;
    if (this.over.signal.aborted) return;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.client.connect(`${scheme}//${location.host}/v1/realtime?model=sori`, this.settings());
  }

  /** @param {Float32Array} samples @param {number} level */
  hear(samples, level) {
    if (level > VOICE_LEVEL) this.voiceEnd = performance.now();
    if (document.body.dataset.state !== "speaking") visual.hear(level);
    this.encoder.encode(samples);
  }

  /** @param {string} words */
  fail(words) {
    this.end();
    enter("error");
    explain("The conversation has ended", words);
  }

  end() {
    this.over.abort();
    this.client.close();
    this.microphone.close();
    this.encoder?.close();
    this.decoder?.reset();
    this.player.close();
    void this.context.close();
    if (conversation === this) conversation = null;
    mute.setAttribute("aria-pressed", "false");
    voice.disabled = false;
    enter("idle");
  }

  /** Stop the sound, and tell the server how much of it was heard. */
  async hush() {
    if (!this.player.active.size) return this.player.resume();
    const playing = [...this.player.active];
    this.decoder.reset();
    const cuts = await this.player.flush();
    for (const item of playing) {
      const cut = cuts.find((one) => one.item === item);
      this.client.truncate(item, cut?.playedMs ?? 0);
      transcript.cut(item);
    }
  }

  // -- from the client ---------------------------------------------------------------------------

  async onReady() {
    try {
      await this.microphone.open(this.context);
      enter("listening");
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      enter("listening", "You can type.");
      explain(error.explanation.title, error.explanation.text);
    }
    for (const words of waiting.splice(0)) this.say(words);
  }

  /** @param {string} item */
  onSpeechStarted(item) {
    this.player.pause();
    transcript.begin(item, "user");
    enter("hearing");
  }

  /** @param {string} _item */
  onSpeechStopped(_item) {
    this.asked = this.voiceEnd || performance.now();
    enter("thinking");
  }

  /** @param {string} item */
  onSpeechDismissed(item) {
    transcript.finish(item);
    this.asked = 0;
    this.player.resume();
    enter(this.player.active.size ? "speaking" : "listening");
  }

  /** @param {string} _item */
  onCommitted(_item) {
    void this.hush();
  }

  /** @param {string} item @param {string} words @param {boolean} final */
  onUserText(item, words, final) {
    transcript.write(item, "user", words);
    if (!final) return;
    transcript.finish(item);
    if (!words && document.body.dataset.state === "thinking") enter("listening");
  }

  /** @param {string} item */
  onReplyStarted(item) {
    transcript.begin(item, "assistant");
  }

  /** @param {string} item @param {string} delta */
  onReplyText(item, delta) {
    transcript.add(item, delta);
  }

  /** @param {string} item @param {Uint8Array} bytes */
  onReplyAudio(item, bytes) {
    voice.disabled = true; // a voice that has been heard stays
    this.player.active.add(item);
    this.decoder.decode(item, bytes);
  }

  /** @param {string} item */
  onReplyAudioEnd(item) {
    this.decoder.end(item);
  }

  /** @param {any} response */
  onResponseDone(response) {
    if (response.status === "cancelled") void this.hush();
    for (const item of response.output) transcript.finish(item.id);
    const timings = response.sori?.timings_ms;
    if (this.heard && timings) readout.show(this.heard, timings);
    this.heard = 0;
    if (response.status === "failed") {
      explain("No answer this time", response.status_details?.error?.message ?? "Please try again.");
    }
    if (!this.player.active.size && document.body.dataset.state === "thinking") enter("listening");
  }

  /** @param {string} message */
  onError(message) {
    explain("The server did not accept something", message);
  }

  /** @param {number} code @param {string} reason */
  onClosed(code, reason) {
    this.fail(
      code === 1013
        ? "The server is busy or still waking up. Try again in a moment."
        : `The connection was closed (${code}${reason ? `: ${reason}` : ""}).`,
    );
  }

  // -- from the player ---------------------------------------------------------------------------

  /** @param {string} _item @param {number} heardAt */
  onStarted(_item, heardAt) {
    if (this.asked) this.heard = heardAt - this.asked;
    this.asked = 0;
    enter("speaking");
  }

  /** @param {string} _item */
  onDrained(_item) {
    if (!this.player.active.size && document.body.dataset.state === "speaking") enter("listening");
  }

  /** @param {number} level */
  onRendered(level) {
    if (document.body.dataset.state === "speaking") visual.hear(level);
  }

  /** @param {string} words typed */
  async say(words) {
    await this.hush();
    this.client.cancel();
    const item = `typed-${Date.now()}`;
    transcript.write(item, "user", words);
    transcript.finish(item);
    this.asked = performance.now();
    this.client.say(words);
    enter("thinking");
  }
}

/** @type {Conversation | null} */
let conversation = null;
/** @type {string[]} typed before the session was there */
const waiting = [];

function begin() {
  if (conversation) return;
  if (!window.isSecureContext) {
    enter("error");
    explain(
      "This address cannot use the microphone",
      "Browsers allow it only on https:// or on this same machine. Start the server with --tls-self-signed, or open it as http://127.0.0.1.",
    );
    return;
  }
  const started = new Conversation();
  conversation = started;
  started.start().catch((error) => {
    if (!started.over.signal.aborted) started.fail(String(error.message ?? error));
  });
}

find("talk").addEventListener("click", begin);
stopButton.addEventListener("click", () => conversation?.end());
mute.addEventListener("click", () => {
  const muted = mute.getAttribute("aria-pressed") !== "true";
  mute.setAttribute("aria-pressed", String(muted));
  conversation?.microphone.mute(muted);
});
find("settings").addEventListener("change", () => {
  if (conversation?.client.configured) conversation.client.configure(conversation.settings());
});
find("settings").addEventListener("submit", (event) => event.preventDefault());
find("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = text.value.trim();
  if (!words) return;
  text.value = "";
  if (conversation?.client.configured) void conversation.say(words);
  else {
    waiting.push(words);
    begin();
  }
});

if (tapped) {
  // For tests: what the loudspeaker got.
  Object.assign(window, { sori: { played: () => conversation?.player.played() } });
}
