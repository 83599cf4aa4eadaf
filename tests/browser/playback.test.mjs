// The jitter buffer, the resampler and the arithmetic of the page.
import assert from "node:assert/strict";
import { test } from "node:test";

import { median, stepsOf } from "../../web_demo/latency.js";
import { decodePcm16, encodePcm16, fromBase64, rms, toBase64 } from "../../web_demo/pcm.js";
import { PlaybackQueue } from "../../web_demo/playback-queue.js";
import { Resampler } from "../../web_demo/resampler.js";

const RATE = 24000;
const ms = (count) => (count * RATE) / 1000;
const ones = (count) => new Float32Array(count).fill(0.5);

function render(queue, samples) {
  const out = new Float32Array(samples);
  return { out, events: queue.render(out) };
}

test("a reply begins once enough is buffered, and plays gaplessly to its end", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(20)), RATE);
  assert.equal(rms(render(queue, 128).out), 0);
  queue.push("a", ones(ms(40)), RATE);
  queue.end("a");
  const { out, events } = render(queue, ms(100));
  assert.deepEqual(events, [
    { type: "started", item: "a", offset: 0 },
    { type: "drained", item: "a", offset: ms(60) },
  ]);
  assert.ok(out.subarray(0, ms(60)).every((x) => x === 0.5));
  assert.ok(out.subarray(ms(60)).every((x) => x === 0));
});

test("a short reply that has ended does not wait for more", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(10)), RATE);
  queue.end("a");
  assert.equal(render(queue, ms(10)).events[0].type, "started");
});

test("running dry is an underrun, and the next start waits for more", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(40)), RATE);
  assert.equal(render(queue, ms(60)).events.at(-1).type, "underrun");
  queue.push("a", ones(ms(60)), RATE);
  assert.equal(rms(render(queue, ms(10)).out), 0);
  queue.push("a", ones(ms(20)), RATE);
  assert.ok(rms(render(queue, ms(10)).out) > 0.4);
});

test("a flush fades out within 5 ms and tells what was heard of each reply", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(500)), RATE);
  queue.push("b", ones(ms(500)), RATE);
  render(queue, ms(100));
  assert.deepEqual(queue.flush(), [
    { item: "a", playedMs: 105 },
    { item: "b", playedMs: 0 },
  ]);
  const { out } = render(queue, ms(20));
  assert.ok(out[0] > 0.4);
  assert.ok(out.subarray(ms(5)).every((x) => x === 0));
});

test("a pause fades out and keeps what follows for later", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(200)), RATE);
  queue.end("a");
  render(queue, ms(100));
  queue.pause();
  queue.pause();
  const { out, events } = render(queue, ms(300));
  assert.ok(out[0] > 0.4);
  assert.ok(out.subarray(ms(5)).every((x) => x === 0));
  assert.deepEqual(events, []);
  queue.resume();
  const rest = render(queue, ms(200));
  assert.ok(rest.out.subarray(0, ms(95)).every((x) => x === 0.5));
  assert.deepEqual(rest.events.at(-1), { type: "drained", item: "a", offset: ms(95) });
});

test("a flush ends a pause", () => {
  const queue = new PlaybackQueue(RATE, 40);
  queue.push("a", ones(ms(200)), RATE);
  render(queue, ms(100));
  queue.pause();
  assert.deepEqual(queue.flush(), [{ item: "a", playedMs: 105 }]);
  render(queue, ms(20));
  queue.push("b", ones(ms(100)), RATE);
  assert.equal(render(queue, ms(10)).events[0].item, "b");
});

test("a resampled tone keeps its pitch and its length, in chunks of any size", () => {
  for (const [from, to] of [[48000, 24000], [24000, 44100], [24000, 48000]]) {
    const tone = Float32Array.from({ length: from }, (_, i) => Math.sin((2 * Math.PI * 440 * i) / from));
    const resampler = new Resampler(from, to);
    const pieces = [];
    for (let i = 0; i < tone.length; i += 331) pieces.push(...resampler.process(tone.subarray(i, i + 331)));
    assert.ok(Math.abs(pieces.length - to) < to / 100);
    const middle = pieces.slice(to / 10, (to * 9) / 10);
    const error = middle.map((x, i) => x - Math.sin((2 * Math.PI * 440 * (i + to / 10)) / to));
    assert.ok(rms(Float32Array.from(error)) < 0.01, `${from} to ${to}`);
  }
});

test("PCM16 and base64 come back as they went", () => {
  const samples = Float32Array.from([0, 0.5, -0.5, 1, -1, 2]);
  const back = decodePcm16(fromBase64(toBase64(encodePcm16(samples))));
  back.forEach((x, i) => assert.ok(Math.abs(x - Math.max(-1, Math.min(1, samples[i]))) < 1e-4));
});

test("a turn is cut at the server's points, and the wire gets the rest", () => {
  const timings = { turn_end: 500, transcript: 700, first_text: 800, first_audio_sent: 950 };
  assert.deepEqual(stepsOf(1000, timings).map((step) => step.ms), [500, 200, 100, 150, 50]);
  assert.deepEqual(stepsOf(300, { first_text: 100 }).map((step) => step.ms), [100, 200]);
});

test("the median of an even number of turns lies between the middle two", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
});
