/** Paths between two hosts, drawn hop by hop from the live switches' tables. */

import { get } from "./api.js";
import { store } from "./store.js";
import { make, table, toDevice, wide } from "./dom.js";
import { WAYS } from "./scale.js";

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
    mark(paths, null);
    this.#shown.replaceChildren(paths.length === 1 ? one(paths[0]) : sideBySide(paths));
  }
}

/** The cables that a path takes. @param {import("./types.js").Path} path */
function cablesOf({ hops }) {
  return hops.flatMap(({ node, out }) => {
    const device = store.device(node);
    const cable = device === undefined || out === null ? undefined : store.cableAt(device, out);
    return cable === undefined ? [] : [cable];
  });
}

/** Draws paths, each in its colour; or one of them. @param {import("./types.js").Path[]} paths @param {number | null} only */
function mark(paths, only) {
  const all = paths.map((path, way) => ({ way, cables: cablesOf(path), path })).filter(({ way }) => only === null || way === only);
  const names = all.flatMap(({ path }) => path.hops.map(({ node }) => store.device(node)));
  const devices = new Set(names.filter((device) => device !== undefined));
  const ways = paths.length > 1 ? all.map(({ way, cables }) => ({ way, cables })) : [];
  store.setHighlight({ cables: new Set(all.flatMap(({ cables }) => cables)), devices, ways });
}

/** @param {import("./types.js").Path["hops"]} hops */
const inWords = (hops) => hops.map(({ node, in: entry, out }) => `${entry ?? ""}>${node}>${out ?? ""}`).join(" ");

/** @param {import("./types.js").Path} path */
function one({ source, destination, dlid, sl, hops, problem }) {
  const rows = hops.map(({ node, in: entry, out }) => [toDevice(node), entry === null ? "" : String(entry), out === null ? "" : String(out)]);
  const title = `${source} to ${destination}, DLID ${dlid}, SL ${sl}`;
  const shown = make("section", {}, make("h3", {}, title), table(title, ["Device", { number: "In" }, { number: "Out" }], rows));
  shown.dataset.hops = inWords(hops);
  if (problem) shown.append(make("p", { className: "bad" }, problem));
  return shown;
}

/** Paths to the LIDs of one host: a column each, a row a hop. @param {import("./types.js").Path[]} paths */
function sideBySide(paths) {
  const [{ source, destination, sl }] = paths;
  const title = `${source} to ${destination}, SL ${sl}: ${paths.length} LIDs`;
  /** @type {HTMLButtonElement[]} */
  const buttons = paths.map(({ dlid }, way) => {
    const button = make("button", { type: "button", "aria-pressed": "false" }, make("span", { className: "swatch" }), `DLID ${dlid}`);
    /** @type {HTMLElement} */ (button.firstElementChild).style.background = WAYS[way % WAYS.length];
    button.addEventListener("click", () => {
      const isAlone = button.getAttribute("aria-pressed") === "true";
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button && !isAlone)));
      mark(paths, isAlone ? null : way);
    });
    return button;
  });
  const longest = Math.max(...paths.map(({ hops }) => hops.length));
  const rows = Array.from({ length: longest }, (_, hop) => [
    String(hop),
    ...paths.map(({ hops }) => {
      const at = hops[hop];
      if (!at) return "";
      const ports = at.in === null ? `→ ${at.out}` : at.out === null ? `${at.in} →` : `${at.in} → ${at.out}`;
      return make("span", {}, toDevice(at.node), make("small", { className: "quiet" }, ` ${ports}`));
    }),
  ]);
  const shown = make("section", {}, make("h3", {}, title),
    make("p", { className: "ways" }, ...buttons),
    wide("Paths side by side", table(title, ["Hop", ...paths.map(({ dlid }) => `DLID ${dlid}`)], rows)),
    make("p", { className: "quiet" }, "Behind each device the ports by which a packet comes and goes. A button draws one way alone."));
  shown.dataset.ways = paths.map(({ hops }) => inWords(hops)).join(";");
  for (const { dlid, problem } of paths) if (problem) shown.append(make("p", { className: "bad" }, `DLID ${dlid}: ${problem}`));
  return shown;
}

customElements.define("path-panel", PathPanel);
