/** From the map's coordinates to the screen: a shift and a scale. */

/** @typedef {{x: number, y: number}} Point */

export class View {
  scale = 10;
  x = 0;
  y = 0;

  /** @param {Point} point @returns {Point} */
  toScreen({ x, y }) {
    return { x: x * this.scale + this.x, y: y * this.scale + this.y };
  }

  /** @param {Point} point @returns {Point} */
  toMap({ x, y }) {
    return { x: (x - this.x) / this.scale, y: (y - this.y) / this.scale };
  }

  /** Keeps the point of the screen where it is. @param {number} factor @param {Point} around */
  zoom(factor, around) {
    const scale = Math.min(200, Math.max(0.2, this.scale * factor));
    const by = scale / this.scale;
    this.x = around.x - (around.x - this.x) * by;
    this.y = around.y - (around.y - this.y) * by;
    this.scale = scale;
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
  }

  /** Shows all points. @param {Point[]} points @param {number} width @param {number} height */
  fit(points, width, height) {
    if (points.length === 0 || width === 0 || height === 0) return;
    const xs = points.map((point) => point.x);
    const ys = points.map((point) => point.y);
    const [left, right] = [Math.min(...xs) - 2, Math.max(...xs) + 2];
    const [top, bottom] = [Math.min(...ys) - 2, Math.max(...ys) + 2];
    this.scale = Math.min(width / (right - left), height / (bottom - top), 60);
    this.x = (width - (left + right) * this.scale) / 2;
    this.y = (height - (top + bottom) * this.scale) / 2;
  }
}
