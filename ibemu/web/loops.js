/** Credit loops: lanes of cables that wait for each other, as the live switches' tables have it. */

import { get } from "./api.js";
import { store } from "./store.js";
import { link, make, table, toDevice } from "./dom.js";

class LoopPanel extends HTMLElement {
  #shown = make("div", { role: "status" });

  connectedCallback() {
    const look = make("button", { type: "button" }, "Look for credit loops");
    look.addEventListener("click", async () => {
      look.disabled = true;
      await this.#look();
      look.disabled = false;
    });
    const clear = make("button", { type: "button" }, "Clear");
    clear.addEventListener("click", () => {
      this.#shown.replaceChildren();
      store.setHighlight(null);
    });
    const what = "Where packets wait for each other in a cycle of full buffers, none of them moves again. "
      + "The tables of all switches are read, and the cables of such a cycle are marked on the map.";
    this.replaceChildren(make("h2", {}, "Credit loops"), make("p", { className: "quiet" }, what), make("p", {}, look, " ", clear), this.#shown);
  }

  async #look() {
    this.#shown.replaceChildren(make("p", { className: "quiet" }, "The switches are asked …"));
    try {
      /** @type {import("./types.js").Loops} */
      const { switches, loops } = await get("loops");
      if (loops.length === 0) {
        this.#shown.replaceChildren(make("p", {}, `There is none by the tables of ${switches} switches.`));
        return store.setHighlight(null);
      }
      this.#shown.replaceChildren(...loops.map(one));
      mark(loops[0]);
    } catch (error) {
      this.#shown.replaceChildren(make("p", { className: "bad" }, error instanceof Error ? error.message : String(error)));
      store.setHighlight(null);
    }
  }
}

/** The cable that a lane belongs to. @param {import("./types.js").Channel} channel */
function cableOf({ node, port }) {
  const device = store.device(node);
  return device === undefined ? undefined : store.cableAt(device, port);
}

/** @param {import("./types.js").CreditLoop} loop */
function mark({ channels }) {
  const cables = new Set(channels.map(cableOf).filter((cable) => cable !== undefined));
  const devices = new Set(channels.map(({ node }) => store.device(node)).filter((device) => device !== undefined));
  store.setHighlight({ cables, devices });
}

/** @param {import("./types.js").CreditLoop} loop */
function one(loop) {
  const rows = loop.channels.map((channel) => {
    const cable = cableOf(channel);
    const name = cable === undefined ? "" : link(store.cableName(cable), () => store.select({ kind: "cable", cable }));
    return [toDevice(channel.node), String(channel.port), String(channel.vl), name];
  });
  const title = `Among ${loop.among}`;
  const heads = ["Switch", { number: "Port" }, { number: "VL" }, "Cable"];
  const shown = make("section", {}, make("h3", {}, title), make("p", {}, "Each waits for the next, the last for the first. ", link("Mark it", () => mark(loop))), table(title, heads, rows));
  shown.dataset.loop = loop.channels.map(({ node, port, vl }) => `${node}:${port}/${vl}`).join(" ");
  return shown;
}

customElements.define("loop-panel", LoopPanel);
