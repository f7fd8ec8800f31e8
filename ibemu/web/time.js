/** The time line: back through the last hour, and to now. */

import { get } from "./api.js";
import { store } from "./store.js";
import { make } from "./dom.js";
import { clock } from "./format.js";

const STEP_MS = 1000;

class TimeLine extends HTMLElement {
  /** Seconds before the last sample. */
  #range = make("input", { type: "range", id: "time", min: "-1", max: "0", step: "1", value: "0" });
  #text = make("output", { for: "time" }, "now");
  #now = make("button", { type: "button", disabled: true }, "Now");
  #last_ms = 0;

  connectedCallback() {
    this.replaceChildren(make("label", { for: "time" }, "Time"), this.#range, this.#text, this.#now);
    this.#range.addEventListener("pointerdown", () => this.#span());
    this.#range.addEventListener("focus", () => this.#span());
    this.#range.addEventListener("input", () => this.#scrub());
    this.#now.addEventListener("click", () => {
      store.show(null);
      this.#range.value = this.#range.max;
      this.#tell("now");
    });
    store.addEventListener("moment", () => (this.#now.disabled = store.at === null));
    store.addEventListener("ready", async () => {
      this.#now.hidden = store.map.replay;
      await this.#span();
      if (store.map.replay) this.#range.value = this.#range.min;
    });
    store.addEventListener("sample", () => {
      if (store.at !== null && store.sample) this.#tell(clock(store.sample.at_ms));
    });
  }

  /** @param {string} text */
  #tell(text) {
    this.#text.textContent = text;
    this.#range.setAttribute("aria-valuetext", text);
  }

  /** Takes in how far the samples reach by now; what is shown stays. */
  async #span() {
    const { first_ms, last_ms } = await get("span");
    if (first_ms === null) return;
    this.#last_ms = last_ms;
    this.#range.min = String(-Math.max(1, Math.ceil((last_ms - first_ms) / STEP_MS)));
    this.#range.value = store.at === null ? "0" : String(Math.round((store.at - last_ms) / STEP_MS));
  }

  async #scrub() {
    const at = this.#last_ms + Number(this.#range.value) * STEP_MS;
    this.#tell(clock(at));
    await store.show(at);
  }
}

customElements.define("time-line", TimeLine);
