// Speech and transcriptions through the stock `openai` package for Node.
//
// Usage: node audio.mjs BASE_URL TEXT. Prints what happened as one JSON object.

import OpenAI, { toFile } from "openai";

const [baseURL, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
const told = { types: {}, seconds: {}, shapes: {}, deltas: [], refused: [] };

for (const format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
  const answer = await client.audio.speech.create({
    model: "tts-1", voice: "coral", input: text, response_format: format,
  });
  told.types[format] = answer.headers.get("content-type");
  const speech = Buffer.from(await answer.arrayBuffer());
  if (format === "pcm") {
    told.seconds[format] = speech.length / 48000;
    continue;
  }
  const heard = await client.audio.transcriptions.create({
    model: "gpt-4o-transcribe", file: await toFile(speech, `speech.${format}`),
  });
  told.seconds[format] = heard.usage.seconds;
}

const speech = await client.audio.speech.create({ model: "tts-1", voice: "coral", input: text });
const file = await toFile(Buffer.from(await speech.arrayBuffer()), "speech.mp3");
for (const shape of ["json", "text", "srt", "vtt", "verbose_json"]) {
  told.shapes[shape] = await client.audio.transcriptions.create({
    model: "whisper-1", file, response_format: shape,
    ...(shape === "verbose_json" && { timestamp_granularities: ["word", "segment"] }),
  });
}
const stream = await client.audio.transcriptions.create({ model: "whisper-1", file, stream: true });
for await (const event of stream) {
  if (event.type === "transcript.text.delta") told.deltas.push(event.delta);
  if (event.type === "transcript.text.done") told.done = event.text;
}

for (const attempt of [
  () => client.audio.speech.create({ model: "tts-1", voice: "coral", input: "x".repeat(5000) }),
  () => client.audio.translations.create({ model: "whisper-1", file }),
  () => client.audio.transcriptions.create({ model: "unheard-of", file }),
]) {
  await attempt().catch((error) => told.refused.push([error.status, error.param]));
}
console.log(JSON.stringify(told));
