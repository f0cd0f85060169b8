// Reads a stream's bootstrap: its newest snapshot, every message since, and where to read on.

/**
 * @param {string} url of the stream
 * @returns {Promise<{snapshot: Uint8Array | null, snapshotOffset: string | null,
 *   messages: Uint8Array[], nextOffset: string}>}
 */
export async function bootstrap(url) {
  const answer = await fetch(`${url}/bootstrap`)
  const body = new Uint8Array(await answer.arrayBuffer())
  if (answer.status !== 200) throw new Error(`GET ${url}/bootstrap answered ${answer.status}`)
  const boundary = /boundary="?([^";]+)"?/.exec(answer.headers.get("content-type"))?.[1]
  if (!boundary) throw new Error("the bootstrap answer is not multipart")

  // The first part is always there; without a snapshot it is empty and the offset is -1.
  const [first, ...messages] = splitMultipart(body, boundary)
  const offset = answer.headers.get("stream-snapshot-offset")
  return {
    snapshot: offset === "-1" ? null : first,
    snapshotOffset: offset === "-1" ? null : offset,
    messages,
    nextOffset: answer.headers.get("stream-next-offset"),
  }
}

/** The parts' bodies. A body may hold any bytes, but never the random boundary. */
function splitMultipart(bytes, boundary) {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  const open = `--${boundary}\r\n`
  if (buffer.toString("latin1", 0, open.length) !== open) throw new Error("no first boundary")
  const parts = []
  let at = open.length - 2
  for (;;) {
    // `at` is behind a boundary: either CRLF and a part follow, or the closing `--`.
    if (buffer.toString("latin1", at, at + 2) === "--") return parts
    const body = buffer.indexOf("\r\n\r\n", at) + 4
    const end = buffer.indexOf(delimiter, body)
    // The server cuts the connection of a reader that is too slow. Half an answer is none.
    if (body < 4 || end < 0) throw new Error("the bootstrap answer was cut short")
    parts.push(bytes.subarray(body, end))
    at = end + delimiter.length
  }
}
