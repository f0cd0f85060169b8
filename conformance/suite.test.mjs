// The public suite, unmodified. It is called from a file of ours because vitest never runs test
// files that lie below node_modules.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_URL,
  subscriptions: process.env.CONFORMANCE_SUBSCRIPTIONS === "1",
})
