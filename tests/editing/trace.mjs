// The recorded sessions, and a plain text that patches can be applied to.

import { readFileSync } from "node:fs"
import { gunzipSync } from "node:zlib"

const DATA = new URL("../data/", import.meta.url)

/** Reads a recording; its shape is described beside the files. */
export function loadTrace(name) {
  return JSON.parse(gunzipSync(readFileSync(new URL(`${name}.json.gz`, DATA))).toString("utf8"))
}

/** A text whose positions count code points, as the recordings do. */
export class PlainText {
  #points

  constructor(content = "") {
    this.#points = Array.from(content)
  }

  /** @param {[number, number, string][]} patches position, code points to delete, text to insert */
  apply(patches) {
    for (const [at, deleted, inserted] of patches) {
      this.#points.splice(at, deleted, ...Array.from(inserted))
    }
  }

  toString() {
    return this.#points.join("")
  }
}
