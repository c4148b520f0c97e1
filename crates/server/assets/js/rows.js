// A table of any length with only the rows on the screen in the document: spacers stand for the others.
import { el, keyed, setAttribute } from "./dom.js";

const SPARE = 12; // rows beyond each edge of the screen

export class Rows {
  #items = [];
  #total = 0;
  #first = 0;
  #last = 0;

  /** `height` answers the height of a row; `want(index)` is called when a row is to be shown that is not here. */
  constructor(scope, { node, body }, { key, make, fill, height, want }) {
    Object.assign(this, { node, body, key, make, fill, height, want });
    this.above = el("tbody", { "aria-hidden": "true" }, el("tr", { class: "spacer" }, el("td")));
    this.below = this.above.cloneNode(true);
    this.is_begun = false;
    scope.listen(window, "scroll", () => this.#soon(), { passive: true });
    scope.listen(window, "resize", () => this.#soon());
  }

  /** `items` are those at hand, in order; `total` is how many there are. */
  show(items, total) {
    if (!this.is_begun) {
      this.body.before(this.above);
      this.body.after(this.below);
      this.is_begun = true;
    }
    [this.#items, this.#total] = [items, Math.max(total, items.length)];
    setAttribute(this.node, "aria-rowcount", this.#total + 1);
    this.draw();
  }

  get shown() {
    return this.#items.slice(this.#first, this.#last);
  }

  draw() {
    const height = this.height();
    const top = -(this.node.getBoundingClientRect().top + this.node.tHead.offsetHeight);
    const first = Math.max(0, Math.min(this.#total, Math.floor(top / height) - SPARE));
    const last = Math.min(this.#total, Math.ceil((top + innerHeight) / height) + SPARE);
    [this.#first, this.#last] = [first, Math.max(first, last)];
    const here = this.#items.slice(first, this.#last);
    const absent = Math.max(0, this.#last - Math.max(first, this.#items.length));
    const rows = here.map((item, index) => ({ key: this.key(item), item, at: first + index }));
    for (let index = 0; index < absent; index++) rows.push({ key: `absent ${index}`, at: first + here.length + index });
    keyed(this.body, rows, (row) => row.key, (row) => (row.item ? this.make(row.item) : blank(this.node)), (node, row) => {
      setAttribute(node, "aria-rowindex", row.at + 2);
      if (row.item) this.fill(node, row.item);
    });
    this.#space(this.above, first * height);
    this.#space(this.below, (this.#total - this.#last) * height);
    if (absent) this.want(this.#last);
  }

  #space(part, height) {
    part.hidden = height <= 0;
    part.firstChild.firstChild.style.setProperty("height", `${height}px`);
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; if (this.is_begun) this.draw(); });
  }
}

function blank(table) {
  const cells = table.tHead.rows[0].cells.length;
  return el("tr", { class: "skeleton" }, ...Array.from({ length: cells }, () => el("td", {}, el("i"))));
}
