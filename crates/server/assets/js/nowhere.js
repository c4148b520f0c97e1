// An address that leads to no page.
import { empty } from "./parts.js";

export const title = "No such page";

export function mount(root) {
  root.append(empty(`There is nothing at ${location.pathname}.`));
}
