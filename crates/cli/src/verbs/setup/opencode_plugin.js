// relight:plugin — written by `relight setup hooks --for opencode`; `--remove` takes it away.
// Tells Relight what OpenCode does. It never fails: errors are ignored, and nothing waits long.
import { spawn } from "node:child_process"

const RELIGHT = ["relight"]

function hook(event, payload) {
  return new Promise((resolve) => {
    try {
      const [program, ...flags] = RELIGHT
      const words = ["hook", event, "--for", "opencode", ...flags]
      const child = spawn(program, words, { stdio: ["pipe", "pipe", "ignore"], timeout: 10000 })
      let said = ""
      child.stdout.on("data", (part) => (said += part))
      child.on("error", () => resolve(""))
      child.on("close", () => resolve(said))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })
}

export const Relight = async ({ directory }) => {
  const of = (sessionID, more) => ({ sessionID, cwd: directory, ...more })
  return {
    "chat.message": async (input, output) => {
      const parts = output?.parts ?? []
      const prompt = parts.map((part) => part.text ?? "").join("\n")
      const said = await hook("prompt", of(input.sessionID, { prompt }))
      try {
        const text = JSON.parse(said).additionalContext
        const part = parts.find((part) => part.type === "text")
        if (text && part) part.text = `${text}\n\n${part.text}`
      } catch {}
    },
    "tool.execute.before": async (input, output) => {
      const { tool, callID, sessionID } = input
      await hook("before-tool", of(sessionID, { tool, callID, args: output?.args }))
    },
    "tool.execute.after": async (input, output) => {
      const { tool, callID, sessionID } = input
      const args = input.args ?? output?.args
      await hook("after-tool", of(sessionID, { tool, callID, args }))
    },
    event: async ({ event }) => {
      const { sessionID, error } = event.properties ?? {}
      if (!sessionID) return
      if (event.type === "session.idle") await hook("stop", of(sessionID))
      if (event.type === "session.error") {
        const message = error?.data?.message ?? ""
        await hook("failure", of(sessionID, { error: { name: error?.name ?? "error", message } }))
      }
    },
  }
}
