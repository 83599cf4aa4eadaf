// A conversation through the stock `openai` package for Node, which knows only wss:.
//
// Usage: node tour.mjs BASE_URL. Prints what happened as one JSON object.

import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const BLOCK_MS = 20;
const BLOCK_SAMPLES = (24000 * BLOCK_MS) / 1000;
const OPENING_MS = 300;
const WISH_MS = 600;
const STOP_MS = 900;
const SILENCE = Buffer.alloc(BLOCK_SAMPLES * 2).toString("base64");
const VOICE = Buffer.from(
  Int16Array.from({ length: BLOCK_SAMPLES }, (_, i) => (i % 120 < 60 ? 8000 : -8000)).buffer,
).toString("base64");

const tour = { heard: [], replies: [], audio_bytes: 0, truncated_ms: null, arguments: null };
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unused" });
const connection = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);
const waiting = [];
let voiced = 0;

function next(type) {
  return new Promise((resolve) => waiting.push({ type, resolve }));
}

function say(type, fields = {}) {
  connection.send({ type, ...fields });
}

connection.on("error", (error) => {
  console.error("error:", error.message, error.error);
  process.exit(1);
});
connection.on("event", (event) => {
  if (event.type === "response.output_audio.delta") {
    tour.audio_bytes += Buffer.from(event.delta, "base64").length;
  } else if (event.type === "conversation.item.input_audio_transcription.completed") {
    tour.heard.push(event.transcript);
  } else if (event.type === "response.done") {
    const said = event.response.output.flatMap((item) =>
      (item.content ?? []).map((part) => part.transcript ?? part.text),
    );
    tour.replies.push({ status: event.response.status, said: said.join("") });
  }
  for (const one of waiting.filter((one) => one.type === event.type)) {
    waiting.splice(waiting.indexOf(one), 1);
    one.resolve(event);
  }
});

async function speak(length_ms) {
  const ended = next("response.done");
  voiced = length_ms / BLOCK_MS;
  return ended;
}

await next("session.created");
const configured = next("session.updated");
say("session.update", {
  session: {
    type: "realtime",
    audio: { input: { transcription: { model: "whisper-1" }, turn_detection: { type: "server_vad" } } },
    tools: [{ type: "function", name: "weather", parameters: { type: "object", properties: {} } }],
  },
});
tour.tools = (await configured).session.tools.map((tool) => tool.name);

const microphone = setInterval(() => {
  say("input_audio_buffer.append", { audio: voiced-- > 0 ? VOICE : SILENCE });
}, BLOCK_MS);

await speak(OPENING_MS);
const begun = next("response.output_audio.delta");
const interrupted = speak(WISH_MS);
const { item_id } = await begun;
const answered = next("conversation.item.truncated");
voiced = STOP_MS / BLOCK_MS;
await interrupted;
const next_reply = next("response.done");
say("conversation.item.truncate", { item_id, content_index: 0, audio_end_ms: 100 });
tour.truncated_ms = (await answered).audio_end_ms;
await next_reply;

async function write(content, item) {
  const ended = next("response.done");
  say("conversation.item.create", { item });
  say("response.create");
  return ended;
}
const asked = { type: "message", role: "user" };
const text = "How is the weather in Paris?";
const calling = await write(text, { ...asked, content: [{ type: "input_text", text }] });
const call = calling.response.output[0];
tour.arguments = JSON.parse(call.arguments);
await write("", { type: "function_call_output", call_id: call.call_id, output: "sunny" });

clearInterval(microphone);
connection.socket.on("close", (code) => {
  console.log(JSON.stringify({ ...tour, close_code: code }));
  process.exit(0);
});
connection.close();
