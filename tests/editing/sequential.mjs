// One person's session, keystroke by keystroke, on a JSON stream.
//
// The claim: whoever joins at any time, through whatever snapshot is newest and however much of
// the history is gone by then, arrives at exactly the text that the writer has.
//
// The writer publishes its plain text as a snapshot now and then and lets go of old history. On
// the root surface that is a second request, and the boundary stays one snapshot behind, as a
// careful application would do. On `/ds` publishing itself discards everything before the
// snapshot, so a live reader may be thrown out at any moment and has to start over.

import assert from "node:assert/strict"
import { stream } from "@durable-streams/client"
import { bootstrap } from "../../examples/collab/bootstrap.mjs"
import { loadTrace, PlainText } from "./trace.mjs"
import { createStream, Writer } from "./writer.mjs"

const SNAPSHOT_EVERY = 2000
// Not a multiple of the above: the newcomer gets a snapshot and messages after it.
const JOIN_AT = 9500
const START = "-1"

/**
 * @param {string} bucketUrl on the surface to be tested
 * @param {boolean} publishTrims whether this surface discards history on publish
 */
export async function replaySequential(bucketUrl, publishTrims) {
  const trace = loadTrace("sveltecomponent")
  const url = `${bucketUrl}/svelte-${crypto.randomUUID()}`
  const handle = await createStream(url, "application/json")
  const writer = new Writer(handle, "author")
  const text = new PlainText(trace.startContent)
  let published = START
  let newcomer
  for (const [number, { patches }] of trace.txns.entries()) {
    if (number > 0 && number % SNAPSHOT_EVERY === 0) {
      const tail = await writer.flush()
      await assertReadable(url, published, number - SNAPSHOT_EVERY, number)
      await publish(url, tail, text)
      const boundary = publishTrims ? tail : published
      if (boundary !== START) {
        if (!publishTrims) await trimTo(url, boundary)
        await assertGoneBelow(url, boundary)
      }
      published = tail
    }
    if (number === JOIN_AT) {
      newcomer = new Reader(url).follow()
      // Awaited at the end; until then a failure must not count as one that nobody handles.
      newcomer.catch(() => {})
    }
    text.apply(patches)
    writer.append(JSON.stringify({ number, patches }))
  }
  await writer.flush()
  // Closing is how the live reader learns that it has everything.
  await handle.close()

  const midway = await newcomer
  const late = await new Reader(url).follow()
  assert.equal(text.toString(), trace.endContent, "writer")
  assert.equal(midway.text.toString(), trace.endContent, "newcomer in the middle")
  assert.equal(late.text.toString(), trace.endContent, "newcomer at the end")
  // Its history was kept for one more snapshot, so nothing may have interrupted it.
  if (!publishTrims) assert.equal(midway.restarts, 0, "restarts of the newcomer")
  return `${trace.txns.length} appends, newcomer read ${midway.read} live or since its snapshot, `
    + `started over ${midway.restarts} times; the last one read ${late.read}`
}

/** A reader that starts from a snapshot and follows the stream to its end. */
class Reader {
  restarts = 0
  read = 0

  constructor(url) {
    this.url = url
  }

  async follow() {
    while (!(await this.#followOnce())) this.restarts++
    return this
  }

  /** Returns false where history was discarded under our feet: start over from a newer snapshot. */
  async #followOnce() {
    const start = await bootstrap(this.url)
    this.text = new PlainText(start.snapshot ? new TextDecoder().decode(start.snapshot) : "")
    this.next = undefined
    for (const message of start.messages) this.#apply(JSON.parse(new TextDecoder().decode(message)))
    try {
      const session = await stream({ url: this.url, offset: start.nextOffset, live: "sse" })
      session.subscribeJson((batch) => batch.items.forEach((message) => this.#apply(message)))
      await session.closed
      return session.streamClosed
    } catch (error) {
      if (error.status === 410) return false
      throw error
    }
  }

  /** Every message once and in order, or it is an error of the server. */
  #apply({ number, patches }) {
    assert.equal(number, this.next ?? number, "the next message")
    this.next = number + 1
    this.read++
    this.text.apply(patches)
  }
}

/** Catch-up from `offset` gives the messages `first..end`: what is discarded later was there. */
async function assertReadable(url, offset, first, end) {
  const messages = await (await stream({ url, offset, live: false })).json()
  const expected = Array.from({ length: end - first }, (_, i) => first + i)
  assert.deepEqual(messages.map(({ number }) => number), expected, "catch-up")
}

/** Publishes the text as it is behind the message that ends at `offset`. */
async function publish(url, offset, text) {
  const answer = await fetch(`${url}/snapshot/${offset}`, {
    method: "PUT",
    headers: { "Content-Type": "text/plain; charset=utf-8" },
    body: text.toString(),
  })
  assert.equal(answer.status, 204, `publish: ${await answer.text()}`)
  assert.equal(answer.headers.get("stream-snapshot-offset"), offset)
}

async function trimTo(url, offset) {
  const answer = await fetch(`${url}/retention/${offset}`, { method: "PUT" })
  assert.equal(answer.status, 204, `retention: ${await answer.text()}`)
}

/** What is gone says so, and names the way back in. */
async function assertGoneBelow(url, boundary) {
  const answer = await fetch(`${url}?offset=-1`)
  await answer.arrayBuffer()
  assert.equal(answer.status, 410)
  assert.equal(answer.headers.get("stream-retained-offset"), boundary)
  assert.match(answer.headers.get("link") ?? "", /bootstrap>; rel="bootstrap"/)
}
