/** Small graphs over time: one line each way. */

import { colours } from "./scale.js";
import { make } from "./dom.js";

/**
 * @param {string} label what is shown, for who cannot see it
 * @param {number[]} at_ms
 * @param {number[][]} lines of as many values
 * @param {number} least the top of the graph is no lower than this
 */
export function spark(label, at_ms, lines, least) {
  const canvas = make("canvas", { className: "spark", width: 600, height: 120, role: "img" });
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d");
  if (!context || at_ms.length < 2) return canvas;
  const colour = colours();
  const top = Math.max(least, ...lines.flat());
  const [first, last] = [at_ms[0], at_ms[at_ms.length - 1]];
  const styles = [colour.steps[3], colour.mark];
  lines.forEach((line, index) => {
    context.beginPath();
    line.forEach((value, point) => {
      const x = ((at_ms[point] - first) / (last - first)) * 600;
      const y = 118 - (value / top) * 114;
      if (point === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    });
    context.strokeStyle = styles[index % 2];
    context.setLineDash(index % 2 ? [6, 3] : []);
    context.lineWidth = 2.5;
    context.stroke();
  });
  return canvas;
}
