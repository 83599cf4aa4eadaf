// A conversation through the stock `@openai/agents-realtime` package over a WebSocket.
//
// Usage: node tour.mjs URL_OF_THE_SOCKET name=value… with answer=FILE for all that is heard,
// max_tokens=… of each reply, and speech=FILE to speak instead of all the rest. Prints what happened
// as one JSON object.

import { readFileSync, writeFileSync } from "node:fs";

import { RealtimeAgent, RealtimeSession, tool } from "@openai/agents-realtime";
import { z } from "zod";

// Not public, but it is what decides whether the SDK acts on an event or only passes it on.
import { parseRealtimeEvent } from "./node_modules/@openai/agents-realtime/dist/openaiRealtimeEvents.mjs";

const BLOCK_MS = 20;
const BLOCK_SAMPLES = (24000 * BLOCK_MS) / 1000;
const OPENING_MS = 300;
const WISH_MS = 600;
const STOP_MS = 900;
const SILENCE = new Int16Array(BLOCK_SAMPLES).buffer;
const VOICE = Int16Array.from({ length: BLOCK_SAMPLES }, (_, i) => (i % 120 < 60 ? 8000 : -8000)).buffer;

const given = Object.fromEntries(process.argv.slice(3).map((pair) => pair.split("=")));
const tour = {
  heard: [], replies: [], interrupted: 0, truncated_ms: [], not_understood: [],
};
const waiting = [];
const heard = [];
let to_say = [];

const weather = tool({
  name: "weather",
  description: "How the weather is.",
  parameters: z.object({ city: z.string() }),
  execute: async (asked) => {
    tour.arguments = asked;
    return "sunny";
  },
});
const agent = new RealtimeAgent({ name: "Guide", instructions: "Be brief.", tools: [weather] });
const limit = given.max_tokens ? { max_output_tokens: Number(given.max_tokens) } : {};
const config = { providerData: limit };
const session = new RealtimeSession(agent, { transport: "websocket", config });

session.on("audio", (event) => heard.push(Buffer.from(event.data)));
session.on("audio_interrupted", () => (tour.interrupted += 1));
session.on("error", ({ error }) => {
  console.error("error:", error);
  process.exit(1);
});
session.transport.on("*", (event) => {
  if (parseRealtimeEvent({ data: JSON.stringify(event) }).isGeneric) {
    tour.not_understood.push(event.type);
  }
  if (event.type === "conversation.item.input_audio_transcription.completed") {
    tour.heard.push(event.transcript);
  } else if (event.type === "conversation.item.truncated") {
    tour.truncated_ms.push(event.audio_end_ms);
  } else if (event.type === "response.done") {
    const said = event.response.output.flatMap((item) => item.content ?? []);
    const text = said.map((part) => part.transcript ?? part.text).join("");
    tour.replies.push({ status: event.response.status, said: text });
  }
  for (const one of waiting.filter((one) => one.type === event.type)) {
    one.left -= 1;
    if (one.left === 0) {
      waiting.splice(waiting.indexOf(one), 1);
      one.resolve(event);
    }
  }
});

function say(length_ms) {
  to_say = Array(length_ms / BLOCK_MS).fill(VOICE);
}

function play(file) {
  const speech = readFileSync(file);
  const size = BLOCK_SAMPLES * 2;
  to_say = Array.from({ length: Math.floor(speech.length / size) }, (_, i) =>
    Uint8Array.from(speech.subarray(i * size, (i + 1) * size)).buffer,
  );
}

function tell() {
  clearInterval(microphone);
  writeFileSync(given.answer, Buffer.concat(heard));
  console.log(JSON.stringify(tour));
  process.exit(0);
}

function next(type, left = 1) {
  return new Promise((resolve) => waiting.push({ type, left, resolve }));
}

const updated = next("session.updated");
await session.connect({ apiKey: "unused", url: process.argv[2] });
await updated;
const microphone = setInterval(() => session.sendAudio(to_say.shift() ?? SILENCE), BLOCK_MS);

const first = next("response.done");
if (given.speech) {
  play(given.speech);
  await first;
  tell();
}
say(OPENING_MS);
await first;
const begun = next("response.output_audio.delta");
say(WISH_MS);
await begun;
const interrupted_and_answered = next("response.done", 2);
say(STOP_MS);
await interrupted_and_answered;
const called_and_answered = next("response.done", 2);
session.sendMessage("How is the weather in Paris?");
await called_and_answered;

tour.history = session.history.filter((item) => item.type === "message").map((item) => item.role);

// The SDK rewrites a history by deleting items, and by creating those that are new.
const deleted = next("conversation.item.deleted", session.history.length - 2);
const added = next("conversation.item.done");
const content = [{ type: "input_text", text: "I live in Paris." }];
const note = { itemId: "item_note", type: "message", role: "user", status: "completed", content };
session.updateHistory((history) => [...history.slice(0, 2), note]);
await deleted;
tour.added = (await added).item.id;
tell();
