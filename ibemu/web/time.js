/** The time line: back through the last hour, and to now. */

import { get } from "./api.js";
import { store } from "./store.js";
import { make } from "./dom.js";
import { clock } from "./format.js";

class TimeLine extends HTMLElement {
  #range = make("input", { type: "range", id: "time", min: "0", max: "1", step: "1000", value: "1" });
  #text = make("output", { for: "time" }, "now");
  #now = make("button", { type: "button" }, "Now");

  connectedCallback() {
    this.replaceChildren(make("label", { for: "time" }, "Time"), this.#range, this.#text, this.#now);
    this.#range.addEventListener("pointerdown", () => this.#span());
    this.#range.addEventListener("focus", () => this.#span());
    this.#range.addEventListener("input", () => this.#scrub());
    this.#now.addEventListener("click", () => {
      store.show(null);
      this.#range.value = this.#range.max;
      this.#text.textContent = "now";
    });
    store.addEventListener("ready", async () => {
      this.#now.hidden = store.map.replay;
      await this.#span();
      this.#range.value = store.map.replay ? this.#range.min : this.#range.max;
    });
    store.addEventListener("sample", () => {
      if (store.at !== null && store.sample) this.#text.textContent = clock(store.sample.at_ms);
    });
  }

  async #span() {
    const { first_ms, last_ms } = await get("span");
    if (first_ms === null) return;
    const isNow = store.at === null;
    this.#range.min = String(first_ms);
    this.#range.max = String(last_ms);
    if (isNow) this.#range.value = String(last_ms);
  }

  async #scrub() {
    const at = Number(this.#range.value);
    this.#text.textContent = clock(at);
    await store.show(at);
  }
}

customElements.define("time-line", TimeLine);
