// The conversation in writing: one bubble an item, in the order in which the items began.
// @ts-check

export class Transcript {
  /** @param {HTMLElement} list */
  constructor(list) {
    this.list = list;
    /** @type {Map<string, HTMLElement>} */
    this.bubbles = new Map();
  }

  /** @param {string} item @param {"user" | "assistant"} who */
  begin(item, who) {
    let bubble = this.bubbles.get(item);
    if (!bubble) {
      this.list.querySelector(".hint")?.remove();
      bubble = document.createElement("li");
      bubble.className = `${who} pending`;
      bubble.textContent = "…";
      bubble.dataset.empty = "true";
      this.list.append(bubble);
      this.bubbles.set(item, bubble);
      this.follow();
    }
    return bubble;
  }

  /** @param {string} item @param {"user" | "assistant"} who @param {string} text */
  write(item, who, text) {
    const bubble = this.begin(item, who);
    delete bubble.dataset.empty;
    bubble.textContent = text;
    this.follow();
  }

  /** @param {string} item @param {string} delta of what the assistant says */
  add(item, delta) {
    const bubble = this.begin(item, "assistant");
    this.write(item, "assistant", (bubble.dataset.empty ? "" : bubble.textContent) + delta);
  }

  /** Nothing more will be written; a bubble without words goes. @param {string} item */
  finish(item) {
    const bubble = this.bubbles.get(item);
    bubble?.classList.remove("pending");
    if (bubble && (bubble.dataset.empty || !bubble.textContent?.trim())) bubble.remove();
  }

  /** @param {string} item */
  cut(item) {
    this.bubbles.get(item)?.classList.add("cut");
    this.finish(item);
  }

  follow() {
    this.list.scrollTop = this.list.scrollHeight;
  }
}
