/** Paths between two hosts, drawn hop by hop from the live switches' tables. */

import { get } from "./api.js";
import { store } from "./store.js";
import { make, table } from "./dom.js";

class PathPanel extends HTMLElement {
  #from = make("input", { id: "path-from", required: true, autocomplete: "off" });
  #to = make("input", { id: "path-to", required: true, autocomplete: "off" });
  #offset = make("input", { id: "path-offset", type: "number", min: "0", max: "127", placeholder: "any" });
  #shown = make("div", { role: "status" });

  connectedCallback() {
    const one = make("button", { type: "submit" }, "Show path");
    const all = make("button", { type: "button" }, "All of the LID range");
    const none = make("button", { type: "button" }, "Clear");
    const form = make("form", {},
      make("p", {}, make("label", { for: "path-from" }, "From", this.#from)),
      make("p", {}, make("label", { for: "path-to" }, "To", this.#to)),
      make("p", {}, make("label", { for: "path-offset" }, "LID offset", this.#offset)),
      make("p", {}, one, " ", all, " ", none));
    for (const input of [this.#from, this.#to]) input.setAttribute("list", "hosts");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask("path", { offset: this.#offset.value || null });
    });
    all.addEventListener("click", () => form.reportValidity() && this.#ask("paths", {}));
    none.addEventListener("click", () => {
      this.#shown.replaceChildren();
      store.setHighlight(null);
    });
    const hosts = make("datalist", { id: "hosts" });
    store.addEventListener("ready", () => {
      const names = store.map.devices.filter(({ kind }) => kind === "host").map(({ name }) => make("option", { value: name }));
      hosts.replaceChildren(...names);
    });
    this.replaceChildren(make("h2", {}, "Paths"), form, hosts, this.#shown);
  }

  /** @param {string} what @param {Record<string, string | null>} more */
  async #ask(what, more) {
    this.#shown.replaceChildren(make("p", { className: "quiet" }, "The switches are asked …"));
    try {
      const answer = await get(what, { from: this.#from.value.trim(), to: this.#to.value.trim(), ...more });
      this.#show(Array.isArray(answer) ? answer : [answer]);
    } catch (error) {
      this.#shown.replaceChildren(make("p", { className: "bad" }, error instanceof Error ? error.message : String(error)));
      store.setHighlight(null);
    }
  }

  /** @param {import("./types.js").Path[]} paths */
  #show(paths) {
    const cables = new Set();
    const devices = new Set();
    for (const { hops } of paths) {
      for (const { node, out } of hops) {
        const device = store.device(node);
        if (device === undefined) continue;
        devices.add(device);
        const cable = out === null ? undefined : store.cableAt(device, out);
        if (cable !== undefined) cables.add(cable);
      }
    }
    store.setHighlight({ cables, devices });
    this.#shown.replaceChildren(...paths.map(one));
  }
}

/** @param {import("./types.js").Path} path */
function one({ source, destination, dlid, sl, hops, problem }) {
  const rows = hops.map(({ node, in: entry, out }) => [node, entry === null ? "" : String(entry), out === null ? "" : String(out)]);
  const title = `${source} to ${destination}, DLID ${dlid}, SL ${sl}`;
  const shown = make("section", {}, make("h3", {}, title), table(title, ["Device", { number: "In" }, { number: "Out" }], rows));
  shown.dataset.hops = hops.map(({ node, in: entry, out }) => `${entry ?? ""}>${node}>${out ?? ""}`).join(" ");
  if (problem) shown.append(make("p", { className: "bad" }, problem));
  return shown;
}

customElements.define("path-panel", PathPanel);
