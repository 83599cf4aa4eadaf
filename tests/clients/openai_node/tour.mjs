// A conversation through the stock `openai` package for Node, which knows only wss:.
//
// Usage: node tour.mjs BASE_URL name=value… with answer=FILE for all that is heard, encoding=… of
// both directions, max_tokens=… of each reply, and speech=FILE to speak instead of all the rest.
// Prints what happened as one JSON object.

import { readFileSync, writeFileSync } from "node:fs";

import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const BLOCK_MS = 20;
const OPENING_MS = 300;
const WISH_MS = 600;
const STOP_MS = 900;
// Of each encoding its rate, and a sample when it is silent, high and low.
const SAMPLES = {
  "audio/pcm": [24000, [0x00, 0x00], [0x40, 0x1f], [0xc0, 0xe0]],
  "audio/pcmu": [8000, [0xff], [0xa0], [0x20]],
  "audio/pcma": [8000, [0xd5], [0x8a], [0x0a]],
};

const given = Object.fromEntries(process.argv.slice(3).map((pair) => pair.split("=")));
const encoding = given.encoding ?? "audio/pcm";
const [rate, silent, high, low] = SAMPLES[encoding];
const SILENCE = block(() => silent);
const VOICE = block((i) => (i % (rate / 200) < rate / 400 ? high : low)); // 200 Hz

function block(sample) {
  const samples = Array.from({ length: (rate * BLOCK_MS) / 1000 }, (_, i) => sample(i));
  return Buffer.from(samples.flat());
}

const tour = { heard: [], replies: [], truncated_ms: null, arguments: null };
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unused" });
const connection = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);
const waiting = [];
let audio = Buffer.alloc(0);
let to_say = Buffer.alloc(0);

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
    audio = Buffer.concat([audio, Buffer.from(event.delta, "base64")]);
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

function append() {
  const block = Buffer.from(SILENCE);
  to_say.copy(block);
  to_say = to_say.subarray(block.length);
  say("input_audio_buffer.append", { audio: block.toString("base64") });
}

// Returns the next response that ends.
async function speak(speech) {
  const ended = next("response.done");
  to_say = speech;
  return ended;
}

async function speak_for(length_ms) {
  return speak(Buffer.concat(Array(length_ms / BLOCK_MS).fill(VOICE)));
}

async function bring(item, response = {}) {
  const ended = next("response.done");
  say("conversation.item.create", { item });
  say("response.create", { response });
  return (await ended).response.output[0];
}

async function ask(text, response) {
  const content = [{ type: "input_text", text }];
  return bring({ type: "message", role: "user", content }, response);
}

async function converse() {
  await speak_for(OPENING_MS);
  const begun = next("response.output_audio.delta");
  const interrupted = speak_for(WISH_MS);
  const { item_id } = await begun;
  const answered = next("conversation.item.truncated");
  speak_for(STOP_MS);
  await interrupted;
  const next_reply = next("response.done");
  say("conversation.item.truncate", { item_id, content_index: 0, audio_end_ms: 100 });
  tour.truncated_ms = (await answered).audio_end_ms;
  await next_reply;

  const call = await ask("How is the weather in Paris?");
  tour.arguments = JSON.parse(call.arguments);
  await bring({ type: "function_call_output", call_id: call.call_id, output: "sunny" });
  const heard = audio.length;
  const written = await ask("Write it down.", { output_modalities: ["text"] });
  tour.written = written.content.map((part) => part.text);
  tour.sound_of_the_written = audio.length - heard;
}

await next("session.created");
const configured = next("session.updated");
const format = encoding === "audio/pcm" ? { type: encoding, rate } : { type: encoding };
const hearing = { transcription: { model: "whisper-1" }, turn_detection: { type: "server_vad" } };
say("session.update", {
  session: {
    type: "realtime",
    audio: { input: { format, ...hearing }, output: { format } },
    max_output_tokens: given.max_tokens ? Number(given.max_tokens) : "inf",
    tools: [{ type: "function", name: "weather", parameters: { type: "object", properties: {} } }],
  },
});
tour.tools = (await configured).session.tools.map((tool) => tool.name);

const microphone = setInterval(append, BLOCK_MS);
if (given.speech) {
  await speak(readFileSync(given.speech));
} else {
  await converse();
}
clearInterval(microphone);

writeFileSync(given.answer, audio);
connection.socket.on("close", (code) => {
  console.log(JSON.stringify({ ...tour, close_code: code }));
  process.exit(0);
});
connection.close();
