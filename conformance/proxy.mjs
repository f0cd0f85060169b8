// A reverse proxy that only renames: `/v1/stream/{name}` in front, `{prefix}/{name}` behind.
//
// The public suite knows one URL shape. With this in between, the very same tests exercise the
// surfaces whose streams live in a bucket. It must be invisible otherwise: bodies pass through
// unbuffered in both directions (SSE, long-poll), connections are kept alive, and a side that goes
// away takes the other with it.

import http from "node:http"
import { pipeline } from "node:stream"

const FRONT = "/v1/stream/"
// Hop-by-hop headers belong to one connection; node sets its own. `transfer-encoding` stays: it is
// how node knows that a body of unknown length follows.
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "upgrade", "te"])

/**
 * @param {string} upstream base URL of the server, e.g. `http://127.0.0.1:4437`
 * @param {string} prefix where the streams live there, e.g. `/ds/conf-ds`
 * @returns {Promise<{url: string, stop: () => Promise<void>}>}
 */
export async function startProxy(upstream, prefix) {
  const agent = new http.Agent({ keepAlive: true })
  const { hostname, port } = new URL(upstream)
  const behind = `${prefix}/`
  const toBack = (path) => path.replace(FRONT, behind)
  const toFront = (link) => link.replace(behind, FRONT)
  const requestHeaders = rewriter({ "stream-forked-from": toBack })
  const responseHeaders = rewriter({ location: toFront, link: toFront })

  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(FRONT)) {
      response.writeHead(404).end()
      return
    }
    const back = http.request({
      agent,
      hostname,
      port,
      method: request.method,
      path: toBack(request.url),
      headers: requestHeaders(request.rawHeaders),
    })
    back.on("response", (answer) => {
      response.writeHead(answer.statusCode, responseHeaders(answer.rawHeaders))
      // Without this node keeps the head until the first body byte: an idle SSE would hang.
      response.flushHeaders()
      pipeline(answer, response, () => {})
    })
    // A broken connection behind is shown as a broken connection in front, never as an answer
    // of our own that a test could take for the server's.
    back.on("error", () => response.destroy())
    response.on("close", () => back.destroy())
    pipeline(request, back, () => {})
  })
  server.listen(0, "127.0.0.1")
  await new Promise((resolve) => server.once("listening", resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: async () => {
      server.closeAllConnections()
      agent.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Copies raw headers, order and repetitions kept, with some values changed. */
function rewriter(changes) {
  return (raw) => {
    const kept = []
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i].toLowerCase()
      if (HOP_BY_HOP.has(name)) continue
      kept.push(raw[i], changes[name] ? changes[name](raw[i + 1]) : raw[i + 1])
    }
    return kept
  }
}
