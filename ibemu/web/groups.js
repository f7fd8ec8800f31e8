/** Multicast groups: members, and the tree that the switches' tables make. */

import { get } from "./api.js";
import { store } from "./store.js";
import { link, make, table, toDevice } from "./dom.js";
import { hex } from "./format.js";

class GroupPanel extends HTMLElement {
  #shown = make("div", { role: "status" });

  connectedCallback() {
    const button = make("button", { type: "button" }, "List groups");
    button.addEventListener("click", () => this.#look());
    const clear = make("button", { type: "button" }, "Clear");
    clear.addEventListener("click", () => {
      this.#shown.replaceChildren();
      store.setHighlight(null);
    });
    const what = "Members of each group as subnet administration tells them, and the tree that the switches' tables make.";
    this.replaceChildren(make("h2", {}, "Multicast groups"), make("p", { className: "quiet" }, what), make("p", {}, button, " ", clear), this.#shown);
  }

  async #look() {
    try {
      /** @type {import("./types.js").Group[]} */
      const groups = await get("groups");
      const rows = groups.map((group) => [link(group.mgid, () => this.#tree(group)), String(group.members.length)]);
      if (groups.length === 0) return this.#shown.replaceChildren(make("p", { className: "quiet" }, "There is no group: join one (ibemu mcast join)."));
      this.#shown.replaceChildren(table("Groups", ["Group", { number: "Members" }], rows));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {import("./types.js").Group} group */
  async #tree({ mgid, members }) {
    try {
      /** @type {Record<string, Record<string, number[]>>} */
      const tables = await get("trees");
      const lids = new Set(members.map(({ mlid }) => hex(mlid)));
      const devices = new Set(members.map(({ name }) => store.device(name)).filter((device) => device !== undefined));
      const cables = new Set();
      for (const [name, rows] of Object.entries(tables)) {
        const device = store.device(name);
        if (device === undefined) continue;
        for (const [mlid, ports] of Object.entries(rows)) {
          if (!lids.has(mlid)) continue;
          devices.add(device);
          for (const port of ports) {
            const cable = store.cableAt(device, port);
            if (cable !== undefined) cables.add(cable);
          }
        }
      }
      store.setHighlight({ cables, devices });
      const rows = members.map(({ name, mlid, join_state }) => [toDevice(name), hex(mlid), join_state === 4 ? "sends only" : "member"]);
      this.#shown.replaceChildren(make("h3", {}, mgid), make("p", {}, `${members.length} members, a tree of ${cables.size} cables.`), table("Members", ["Host", "Multicast LID", "Joined as"], rows));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#shown.replaceChildren(make("p", { className: "bad" }, error instanceof Error ? error.message : String(error)));
  }
}

customElements.define("group-panel", GroupPanel);
