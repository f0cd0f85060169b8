// Length-prefix framing: `u32 big-endian length ‖ payload`, for messages on a byte stream.
//
// A byte stream is read as bytes: catch-up concatenates messages, SSE coalesces them, and only
// bootstrap shows where one ends. A Loro update does not know its own length, so each message
// carries it. Resuming is safe at every offset the server issues: those are message boundaries,
// and a message here is always whole frames. (JSON messages with base64 would keep boundaries for
// us, at a third more bytes.)

const HEAD = 4

/** One frame: what a writer appends. */
export function frame(payload) {
  const framed = new Uint8Array(HEAD + payload.length)
  new DataView(framed.buffer).setUint32(0, payload.length)
  framed.set(payload, HEAD)
  return framed
}

/** Cuts a byte stream, arriving in chunks of any size, back into payloads. */
export class Unframer {
  #rest = new Uint8Array(0)

  /** @returns {Uint8Array[]} the payloads that this chunk completes, in order */
  push(chunk) {
    let bytes = chunk
    if (this.#rest.length > 0) {
      bytes = new Uint8Array(this.#rest.length + chunk.length)
      bytes.set(this.#rest)
      bytes.set(chunk, this.#rest.length)
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const payloads = []
    let at = 0
    while (bytes.length - at >= HEAD) {
      const end = at + HEAD + view.getUint32(at)
      if (end > bytes.length) break
      payloads.push(bytes.subarray(at + HEAD, end))
      at = end
    }
    this.#rest = bytes.slice(at)
    return payloads
  }
}
