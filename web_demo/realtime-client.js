// The Realtime protocol as this page speaks it: events in and out of a socket, no DOM and no audio.
// @ts-check

import { fromBase64, toBase64 } from "./pcm.js";

/**
 * @typedef {object} Settings
 * @property {string} voice
 * @property {number} speed
 * @property {boolean} latencyFirst
 * @property {boolean} opus whether audio travels as Opus, else as PCM16
 *
 * @typedef {object} Listener
 * @property {() => void} onReady the session is configured
 * @property {(item: string) => void} onSpeechStarted
 * @property {(item: string) => void} onSpeechStopped
 * @property {(item: string) => void} onSpeechDismissed it was no turn: what was paused goes on
 * @property {(item: string) => void} onCommitted it is a turn
 * @property {(item: string, text: string, final: boolean) => void} onUserText text so far
 * @property {(item: string) => void} onReplyStarted
 * @property {(item: string, delta: string) => void} onReplyText
 * @property {(item: string, bytes: Uint8Array) => void} onReplyAudio
 * @property {(item: string) => void} onReplyAudioEnd
 * @property {(response: any) => void} onResponseDone
 * @property {(message: string) => void} onError the session goes on
 * @property {(code: number, reason: string) => void} onClosed not called after close()
 */

/** @param {Settings} settings @returns {any} the body of a session.update */
export function sessionOf(settings) {
  const format = settings.opus ? { type: "audio/opus" } : { type: "audio/pcm", rate: 24000 };
  return {
    type: "realtime",
    latency_first: settings.latencyFirst,
    audio: {
      input: {
        format,
        transcription: { model: "whisper-1" },
        turn_detection: { type: "semantic_vad" },
      },
      // Playback is paused while somebody speaks, and only flushed when it was meant.
      output: { format, voice: settings.voice, speed: settings.speed, keeps_buffer: true },
    },
  };
}

export class RealtimeClient {
  /** @param {Listener} listener */
  constructor(listener) {
    this.listener = listener;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.configured = false;
    /** @type {Map<string, string>} */
    this.userTexts = new Map();
    /** @type {Set<string>} items whose audio was cut off: what still comes of it is dropped */
    this.cut = new Set();
  }

  /** @param {string} url @param {Settings} settings @param {(url: string, protocols: string[]) => WebSocket} open */
  connect(url, settings, open = (to, protocols) => new WebSocket(to, protocols)) {
    const socket = open(url, ["realtime"]);
    this.socket = socket;
    socket.onmessage = (message) => this.receive(JSON.parse(message.data), settings);
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.listener.onClosed(event.code, event.reason);
    };
  }

  /** Change the session from the next reply on. @param {Settings} settings */
  configure(settings) {
    this.send({ type: "session.update", session: sessionOf(settings) });
  }

  /** @param {Uint8Array} bytes one packet, or PCM16 */
  append(bytes) {
    if (this.configured) this.send({ type: "input_audio_buffer.append", audio: toBase64(bytes) });
  }

  /** @param {string} text */
  say(text) {
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    this.send({ type: "conversation.item.create", item });
    this.send({ type: "response.create" });
  }

  /** Stop the reply that is being made, if any. */
  cancel() {
    this.send({ type: "response.cancel" });
  }

  /** Tell how much of a reply was heard. @param {string} item @param {number} playedMs */
  truncate(item, playedMs) {
    this.cut.add(item);
    this.send({
      type: "conversation.item.truncate",
      item_id: item,
      content_index: 0,
      audio_end_ms: Math.max(0, Math.floor(playedMs)),
    });
  }

  close() {
    const socket = this.socket;
    this.socket = null;
    this.configured = false;
    socket?.close(1000);
  }

  /** @param {any} event */
  send(event) {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(event));
  }

  /** @param {any} event @param {Settings} settings */
  receive(event, settings) {
    const on = this.listener;
    switch (event.type) {
      case "session.created":
        return this.configure(settings);
      case "session.updated":
        if (this.configured) return;
        this.configured = true;
        return on.onReady();
      case "input_audio_buffer.speech_started":
        return on.onSpeechStarted(event.item_id);
      case "input_audio_buffer.speech_stopped":
        return on.onSpeechStopped(event.item_id);
      case "sori.speech_dismissed":
        return on.onSpeechDismissed(event.item_id);
      case "input_audio_buffer.committed":
        return on.onCommitted(event.item_id);
      case "conversation.item.input_audio_transcription.delta":
        return this.addUserText(event.item_id, event.delta);
      case "conversation.item.input_audio_transcription.completed":
        this.userTexts.delete(event.item_id);
        return on.onUserText(event.item_id, event.transcript, true);
      case "response.output_item.added":
        if (event.item.type === "message") on.onReplyStarted(event.item.id);
        return;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        if (!this.cut.has(event.item_id)) on.onReplyText(event.item_id, event.delta);
        return;
      case "response.output_audio.delta":
        if (!this.cut.has(event.item_id)) on.onReplyAudio(event.item_id, fromBase64(event.delta));
        return;
      case "response.output_audio.done":
        if (!this.cut.has(event.item_id)) on.onReplyAudioEnd(event.item_id);
        return;
      case "response.done":
        return on.onResponseDone(event.response);
      case "error":
        // A cancel that came a moment too late is no news to the person.
        if (event.error.code !== "response_cancel_not_active") on.onError(event.error.message);
    }
  }

  /** @param {string} item @param {string} delta */
  addUserText(item, delta) {
    const text = (this.userTexts.get(item) ?? "") + delta;
    this.userTexts.set(item, text);
    this.listener.onUserText(item, text, false);
  }
}
