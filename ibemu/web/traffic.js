/** Starts and stops traffic. */

import { get, post } from "./api.js";
import { store } from "./store.js";
import { make } from "./dom.js";

class TrafficPanel extends HTMLElement {
  #said = make("p", { role: "status" });

  connectedCallback() {
    this.replaceChildren(make("h2", {}, "Traffic"));
    store.addEventListener("ready", () => this.#show());
    store.addEventListener("happened", () => this.#hear());
  }

  async #show() {
    if (store.map.replay || !store.map.control) {
      const why = store.map.replay ? "This is a stored history." : "This page shows only. Start the server with --control to send traffic, pull cables and restart devices.";
      this.append(make("p", { className: "quiet" }, why));
      return;
    }
    /** @type {{running: string | null, patterns: string[]}} */
    const { running, patterns } = await get("traffic");
    const pattern = make("select", { id: "pattern" }, ...patterns.map((name) => make("option", {}, name)));
    const rate = make("input", { id: "rate", value: "20M", size: 6 });
    const seconds = make("input", { id: "seconds", type: "number", min: "1", max: "3600", value: "60" });
    const stop = make("button", { type: "button", onclick: () => this.#act("traffic/stop", {}) }, "Stop");
    const form = make("form", {},
      make("p", {}, make("label", { for: "pattern" }, "Pattern", pattern)),
      make("p", {}, make("label", { for: "rate" }, "Bits a second of each host", rate)),
      make("p", {}, make("label", { for: "seconds" }, "Seconds", seconds)),
      make("p", {}, make("button", { type: "submit" }, "Start"), " ", stop));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#act("traffic/start", { pattern: pattern.value, rate: rate.value || null, seconds: Number(seconds.value) });
    });
    this.append(form, this.#said);
    if (running) this.#said.textContent = `traffic ${running} is running`;
  }

  /** What was started may have ended by itself, or another page has stopped it. */
  #hear() {
    const last = store.happened[store.happened.length - 1];
    if (last?.kind === "action" && last.text.startsWith("traffic ")) this.#said.textContent = last.text;
  }

  /** @param {string} path @param {object} body */
  async #act(path, body) {
    try {
      this.#said.textContent = (await post(path, body)).done;
    } catch (error) {
      this.#said.textContent = error instanceof Error ? error.message : String(error);
    }
  }
}

customElements.define("traffic-panel", TrafficPanel);
