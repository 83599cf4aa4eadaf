// What is to be played, in order, with a jitter buffer: pure, so that it runs in the worklet and in tests.
// @ts-check

import { Resampler } from "./resampler.js";

const FADE_MS = 5; // an abrupt end would click

/**
 * @typedef {{type: "started" | "drained" | "underrun", item: string, offset: number}} PlaybackEvent
 *   offset: frame within the rendered block
 * @typedef {{item: string, playedMs: number}} Cut
 */

/** The audio of one reply. */
class Track {
  /** @param {string} item */
  constructor(item) {
    this.item = item;
    /** @type {Float32Array[]} */
    this.chunks = [];
    this.offset = 0; // into the first chunk
    this.buffered = 0;
    this.played = 0;
    this.ended = false;
    this.started = false;
    this.waiting = true;
    /** @type {Resampler | null} */
    this.resampler = null;
    this.inputHz = 0;
  }

  /** Moves up to `count` samples into `out` at `at`. @param {Float32Array} out @param {number} at @param {number} count */
  take(out, at, count) {
    let taken = 0;
    while (taken < count && this.chunks.length) {
      const chunk = this.chunks[0];
      const size = Math.min(count - taken, chunk.length - this.offset);
      out.set(chunk.subarray(this.offset, this.offset + size), at + taken);
      taken += size;
      this.offset += size;
      if (this.offset === chunk.length) {
        this.chunks.shift();
        this.offset = 0;
      }
    }
    this.buffered -= taken;
    this.played += taken;
    return taken;
  }
}

export class PlaybackQueue {
  /** @param {number} rateHz of the output @param {number} startMs buffered before a reply begins @param {number} maxStartMs */
  constructor(rateHz, startMs = 40, maxStartMs = 320) {
    this.rateHz = rateHz;
    this.startMs = startMs;
    this.maxStartMs = maxStartMs;
    /** @type {Track[]} */
    this.tracks = [];
    this.fade = new Float32Array(0);
    this.paused = false;
  }

  /** Stops at once, and keeps what is not played yet. */
  pause() {
    if (this.paused) return;
    this.paused = true;
    this.fadeOut();
  }

  /** Goes on where it was paused. */
  resume() {
    this.paused = false;
  }

  /** The next few milliseconds, falling to silence. */
  fadeOut() {
    const head = this.tracks[0];
    if (!head?.started || !head.buffered) return;
    const fade = new Float32Array(Math.round((this.rateHz * FADE_MS) / 1000));
    const size = head.take(fade, 0, fade.length);
    this.fade = fade.map((x, i) => (i < size ? x * (1 - i / size) : 0));
  }

  /** @param {string} item @param {Float32Array} samples @param {number} inputHz */
  push(item, samples, inputHz) {
    let track = this.tracks.find((candidate) => candidate.item === item);
    if (!track) {
      track = new Track(item);
      this.tracks.push(track);
    }
    if (!track.resampler || track.inputHz !== inputHz) {
      track.resampler = new Resampler(inputHz, this.rateHz);
      track.inputHz = inputHz;
    }
    const resampled = track.resampler.process(samples);
    if (!resampled.length) return;
    track.chunks.push(resampled);
    track.buffered += resampled.length;
  }

  /** No more audio of this item comes. @param {string} item */
  end(item) {
    const track = this.tracks.find((candidate) => candidate.item === item);
    if (track) track.ended = true;
  }

  /** Stops at once. @returns {Cut[]} the items that were not heard to their end, and how much of each was */
  flush() {
    if (!this.paused) this.fadeOut();
    this.paused = false;
    const cuts = this.tracks.map((track) => ({
      item: track.item,
      playedMs: Math.floor((track.played * 1000) / this.rateHz),
    }));
    this.tracks = [];
    return cuts;
  }

  /** @param {Float32Array} out filled whole, with silence where there is nothing @returns {PlaybackEvent[]} */
  render(out) {
    /** @type {PlaybackEvent[]} */
    const events = [];
    out.fill(0);
    let at = Math.min(out.length, this.fade.length);
    out.set(this.fade.subarray(0, at));
    this.fade = this.fade.subarray(at);
    while (at < out.length && this.tracks.length && !this.paused) {
      const track = this.tracks[0];
      if (track.waiting && !this.mayStart(track)) break;
      track.waiting = false;
      if (!track.started && track.buffered) {
        track.started = true;
        events.push({ type: "started", item: track.item, offset: at });
      }
      at += track.take(out, at, out.length - at);
      if (track.buffered) break;
      if (track.ended) {
        events.push({ type: "drained", item: track.item, offset: at });
        this.tracks.shift();
      } else if (at < out.length) {
        // Ran dry: wait for more than last time, so that a bad network stutters once instead of always.
        track.waiting = true;
        this.startMs = Math.min(this.maxStartMs, this.startMs * 2);
        events.push({ type: "underrun", item: track.item, offset: at });
      } else break;
    }
    return events;
  }

  /** @param {Track} track */
  mayStart(track) {
    return track.ended || track.buffered * 1000 >= this.startMs * this.rateHz;
  }

  /** @returns {Cut | null} what is being played, and how far */
  position() {
    const head = this.tracks[0];
    return head?.started
      ? { item: head.item, playedMs: (head.played * 1000) / this.rateHz }
      : null;
  }
}
