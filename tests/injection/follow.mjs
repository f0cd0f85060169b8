// Follows every stream that is named to it with the official client over server-sent events, until
// it is closed. Says `ready` once all are followed, and at the end what has arrived of each.

import { stream } from "@durable-streams/client"
import { argv, stdout } from "node:process"
import { setTimeout } from "node:timers/promises"

async function begin(url) {
  const session = await stream({ url, offset: "-1", live: "sse" })
  const pieces = []
  let reached = null
  session.subscribeBytes(({ data, offset }) => {
    pieces.push(data)
    reached = offset
  })
  return async () => {
    await session.closed
    // The session knows of the end a little before the last piece is handed over.
    while (reached !== session.offset) await setTimeout(5)
    const { offset, streamClosed: closed } = session
    return { bytes: Buffer.concat(pieces).toString("base64"), offset, closed }
  }
}

const [base, count] = argv.slice(2)
const urls = Array.from({ length: Number(count) }, (_, number) => base + number)
const followers = await Promise.all(urls.map(begin))
stdout.write("ready\n")
stdout.write(JSON.stringify(await Promise.all(followers.map((follow) => follow()))))
