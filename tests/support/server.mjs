// The server under test: started here on a temporary directory, or already running elsewhere.
//
// Used by everything that tests Headwater from outside the process. It also checks the small
// promises of `headwater serve` itself: one line on stdout when ready, exit code 0 on SIGTERM.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, openSync, closeSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const READY = /^listening on (http:\/\/127\.0\.0\.1:\d+)$/
const START_MS = 30_000
const DRAIN_MS = 15_000

/**
 * @param {{binary?: string, url?: string, args?: string[]}} options one of `binary` and `url`
 * @returns {Promise<{url: string, stop: () => Promise<void>}>} `url` has no trailing slash
 */
export async function openServer({ binary, url, args = [] }) {
  if (Boolean(binary) === Boolean(url)) throw new Error("give one of --binary PATH and --url URL")
  if (url) return { url: url.replace(/\/+$/, ""), stop: async () => {} }
  return start(binary, args)
}

async function start(binary, args) {
  const home = mkdtempSync(join(tmpdir(), "headwater-test-"))
  const log = join(home, "stderr.log")
  const logFd = openSync(log, "w")
  // 500 ms: the public suite waits for real long-poll timeouts under a limit of 5 s a test.
  const serve = ["serve", "--listen", "127.0.0.1:0", "--long-poll-timeout", "500ms"]
  const child = spawn(binary, [...serve, "--data-dir", join(home, "data"), ...args], {
    stdio: ["ignore", "pipe", logFd],
  })
  closeSync(logFd)
  const exited = new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal))
    child.once("error", (error) => resolve(error.message))
  })
  // A script that throws must not leave a server behind.
  const kill = () => child.kill("SIGKILL")
  process.once("exit", kill)

  const lines = []
  const reader = createInterface({ input: child.stdout })
  const firstLine = once(reader, "line").then(([line]) => line)
  reader.on("line", (line) => lines.push(line))

  const fail = (what) => {
    kill()
    const tail = readFileSync(log, "utf8").slice(-2000)
    return new Error(`${binary}: ${what}${tail && `\n${tail}`}`)
  }
  const line = await Promise.race([
    firstLine,
    exited.then((code) => ({ gone: `ended before it was ready (${code})` })),
    timeout(START_MS).then(() => ({ gone: `not ready after ${START_MS} ms` })),
  ])
  if (line.gone) throw fail(line.gone)
  const ready = READY.exec(line)
  if (!ready) throw fail(`unexpected first line ${JSON.stringify(line)}`)

  const stop = async () => {
    child.kill("SIGTERM")
    const code = await Promise.race([exited, timeout(DRAIN_MS).then(() => "did not drain")])
    if (code !== 0) throw fail(`SIGTERM should end it with exit code 0, got: ${code}`)
    if (lines.length !== 1) throw fail(`stdout should be one line, got ${JSON.stringify(lines)}`)
    process.off("exit", kill)
    rmSync(home, { recursive: true })
  }
  return { url: ready[1], stop }
}

/** A timer that does not keep the process alive. */
function timeout(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}

/** Makes sure that a bucket exists; a running server may have it from an earlier run. */
export async function ensureBucket(url) {
  const answer = await fetch(url, { method: "PUT" })
  await answer.arrayBuffer()
  if (answer.status !== 201 && answer.status !== 409) {
    throw new Error(`PUT ${url} answered ${answer.status}, expected 201 or 409`)
  }
}
