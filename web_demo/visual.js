// The orb: breathes when idle, ripples with the microphone, and glows with the reply.
// @ts-check

/** @type {Record<string, [number, number]>} hue and saturation for each state of the page */
const COLOURS = {
  idle: [231, 60],
  connecting: [231, 30],
  listening: [231, 66],
  hearing: [12, 68],
  thinking: [274, 52],
  speaking: [160, 48],
  error: [10, 20],
};
const POINTS = 120;

export class Visual {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.state = "idle";
    this.level = 0;
    this.shown = 0;
    this.hue = COLOURS.idle[0];
    this.saturation = COLOURS.idle[1];
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.draw = this.draw.bind(this);
    requestAnimationFrame(this.draw);
  }

  /** @param {number} level RMS of what is heard or said, 0 to 1 */
  hear(level) {
    this.level = Math.max(this.level, Math.min(1, level * 5));
  }

  /** @param {number} now */
  draw(now) {
    const { pen, canvas } = this;
    const [hue, saturation] = COLOURS[this.state] ?? COLOURS.idle;
    this.hue += (((hue - this.hue + 540) % 360) - 180) * 0.08;
    this.saturation += (saturation - this.saturation) * 0.08;
    this.shown += (this.level - this.shown) * 0.25;
    this.level *= 0.86;
    const time = this.still ? 0 : now / 1000;
    const size = canvas.width;
    pen.clearRect(0, 0, size, size);
    for (let layer = 2; layer >= 0; layer--) {
      this.path(time, layer, size);
      const light = 58 + layer * 9;
      pen.fillStyle = `hsla(${this.hue + layer * 12}, ${this.saturation}%, ${light}%, ${layer ? 0.28 : 1})`;
      pen.fill();
    }
    requestAnimationFrame(this.draw);
  }

  /** @param {number} time @param {number} layer @param {number} size */
  path(time, layer, size) {
    const busy = this.state === "thinking" || this.state === "connecting" ? 0.5 : 0;
    const breath = 1 + 0.02 * Math.sin(time * 1.4 + layer);
    const base = size * (0.31 + layer * 0.035) * breath + this.shown * size * 0.06 * (layer + 0.4);
    const swing = size * (0.006 + 0.03 * this.shown + 0.008 * busy) * (1 + layer * 0.5);
    this.pen.beginPath();
    for (let i = 0; i <= POINTS; i++) {
      const angle = (i / POINTS) * 2 * Math.PI;
      const wave =
        Math.sin(3 * angle + time * (1.2 + 2 * busy) + layer) +
        Math.sin(5 * angle - time * 1.7 + layer * 2) * 0.6;
      const radius = base + swing * wave;
      const x = size / 2 + radius * Math.cos(angle);
      const y = size / 2 + radius * Math.sin(angle);
      if (i) this.pen.lineTo(x, y);
      else this.pen.moveTo(x, y);
    }
    this.pen.closePath();
  }
}
