// The page's protocol, without a page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { RealtimeClient, sessionOf } from "../../web_demo/realtime-client.js";

const SETTINGS = { voice: "coral", speed: 1.2, latencyFirst: true, opus: false };

/** A client on a socket that only records; everything the listener is told is in `told`. */
function connected() {
  const told = [];
  const listener = new Proxy({}, { get: (_, name) => (...args) => told.push([name, ...args]) });
  const socket = { readyState: 1, sent: [], send(text) { this.sent.push(JSON.parse(text)); }, close() {} };
  const client = new RealtimeClient(listener);
  client.connect("ws://host/v1/realtime", SETTINGS, (url, protocols) => Object.assign(socket, { url, protocols }));
  const receive = (event) => socket.onmessage({ data: JSON.stringify(event) });
  return { client, socket, told, receive };
}

test("the session is configured once it is created, and audio flows only then", () => {
  const { client, socket, told, receive } = connected();
  client.append(new Uint8Array([1, 2]));
  assert.deepEqual(socket.sent, []);
  receive({ type: "session.created", session: {} });
  assert.deepEqual(socket.sent.pop(), { type: "session.update", session: sessionOf(SETTINGS) });
  receive({ type: "session.updated", session: {} });
  receive({ type: "session.updated", session: {} });
  assert.deepEqual(told, [["onReady"]]);
  client.append(new Uint8Array([1, 2]));
  assert.deepEqual(socket.sent.pop(), { type: "input_audio_buffer.append", audio: "AQI=" });
});

test("only the subprotocol without a key is offered", () => {
  assert.deepEqual(connected().socket.protocols, ["realtime"]);
});

test("Opus is asked for in both directions", () => {
  const { audio } = sessionOf({ ...SETTINGS, opus: true });
  assert.deepEqual(audio.input.format, { type: "audio/opus" });
  assert.deepEqual(audio.output.format, { type: "audio/opus" });
  assert.equal(audio.output.voice, "coral");
});

test("the page keeps its buffer while somebody speaks, and is told what came of it", () => {
  const { told, receive } = connected();
  assert.equal(sessionOf(SETTINGS).audio.output.keeps_buffer, true);
  receive({ type: "input_audio_buffer.speech_started", item_id: "u" });
  receive({ type: "sori.speech_dismissed", item_id: "u" });
  receive({ type: "input_audio_buffer.committed", item_id: "v" });
  assert.deepEqual(told, [["onSpeechStarted", "u"], ["onSpeechDismissed", "u"], ["onCommitted", "v"]]);
});

test("deltas of the user's words add up until the transcript is complete", () => {
  const { told, receive } = connected();
  const type = "conversation.item.input_audio_transcription";
  receive({ type: `${type}.delta`, item_id: "u", delta: "Hello" });
  receive({ type: `${type}.delta`, item_id: "u", delta: " you" });
  receive({ type: `${type}.completed`, item_id: "u", transcript: "Hello, you." });
  assert.deepEqual(told, [
    ["onUserText", "u", "Hello", false],
    ["onUserText", "u", "Hello you", false],
    ["onUserText", "u", "Hello, you.", true],
  ]);
});

test("after a truncate what still comes of the item is dropped", () => {
  const { client, socket, told, receive } = connected();
  client.truncate("a", 1234.9);
  assert.deepEqual(socket.sent.pop(), {
    type: "conversation.item.truncate", item_id: "a", content_index: 0, audio_end_ms: 1234,
  });
  receive({ type: "response.output_audio.delta", item_id: "a", delta: "AAAA" });
  receive({ type: "response.output_audio_transcript.delta", item_id: "a", delta: "late" });
  receive({ type: "response.output_audio.done", item_id: "a" });
  assert.deepEqual(told, []);
  receive({ type: "response.output_audio.delta", item_id: "b", delta: "AAAA" });
  assert.deepEqual(told, [["onReplyAudio", "b", new Uint8Array(3)]]);
});

test("typed words become an item and a response", () => {
  const { client, socket } = connected();
  client.say("hi");
  assert.deepEqual(socket.sent.map((event) => event.type), ["conversation.item.create", "response.create"]);
  assert.deepEqual(socket.sent[0].item.content, [{ type: "input_text", text: "hi" }]);
});

test("an error is told, but not that there was nothing to cancel", () => {
  const { told, receive } = connected();
  receive({ type: "error", error: { code: "response_cancel_not_active", message: "x" } });
  receive({ type: "error", error: { code: "invalid_value", message: "bad" } });
  assert.deepEqual(told, [["onError", "bad"]]);
});

test("a socket that closes by itself is reported, one that is closed here is not", () => {
  const first = connected();
  first.socket.onclose({ code: 1006, reason: "" });
  assert.deepEqual(first.told, [["onClosed", 1006, ""]]);
  const second = connected();
  second.client.close();
  second.socket.onclose({ code: 1000, reason: "" });
  assert.deepEqual(second.told, []);
});
