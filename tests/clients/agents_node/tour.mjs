// A conversation through the stock `@openai/agents-realtime` package over a WebSocket.
//
// Usage: node tour.mjs URL_OF_THE_SOCKET. Prints what happened as one JSON object.

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

const tour = {
  heard: [], replies: [], audio_bytes: 0, interrupted: 0, truncated_ms: [], not_understood: [],
};
const waiting = [];
let voiced = 0;

const weather = tool({
  name: "weather",
  description: "How the weather is.",
  parameters: z.object({ city: z.string() }),
  execute: async (given) => {
    tour.arguments = given;
    return "sunny";
  },
});
const agent = new RealtimeAgent({ name: "Guide", instructions: "Be brief.", tools: [weather] });
const session = new RealtimeSession(agent, { transport: "websocket" });

session.on("audio", (event) => (tour.audio_bytes += event.data.byteLength));
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

function next(type, left = 1) {
  return new Promise((resolve) => waiting.push({ type, left, resolve }));
}

const updated = next("session.updated");
await session.connect({ apiKey: "unused", url: process.argv[2] });
await updated;
const microphone = setInterval(() => session.sendAudio(voiced-- > 0 ? VOICE : SILENCE), BLOCK_MS);

const first = next("response.done");
voiced = OPENING_MS / BLOCK_MS;
await first;
const begun = next("response.output_audio.delta");
voiced = WISH_MS / BLOCK_MS;
await begun;
const interrupted_and_answered = next("response.done", 2);
voiced = STOP_MS / BLOCK_MS;
await interrupted_and_answered;
const called_and_answered = next("response.done", 2);
session.sendMessage("How is the weather in Paris?");
await called_and_answered;

clearInterval(microphone);
tour.history = session.history.filter((item) => item.type === "message").map((item) => item.role);

// The SDK rewrites a history by deleting items, and by creating those that are new.
const deleted = next("conversation.item.deleted", session.history.length - 2);
const added = next("conversation.item.done");
const content = [{ type: "input_text", text: "I live in Paris." }];
const note = { itemId: "item_note", type: "message", role: "user", status: "completed", content };
session.updateHistory((history) => [...history.slice(0, 2), note]);
await deleted;
tour.added = (await added).item.id;
console.log(JSON.stringify(tour));
process.exit(0);
