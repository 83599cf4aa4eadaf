// Waits for a server that is still loading its models, asking less and less often.
// @ts-check

const FIRST_MS = 500;
const LAST_MS = 5000;

/**
 * Resolves once the server takes sessions; rejects if it cannot be reached, or when aborted.
 * @param {AbortSignal} signal
 * @param {(why: string) => void} onWaiting the server's reason, each time it is asked
 */
export async function serverIsReady(signal, onWaiting) {
  for (let pauseMs = FIRST_MS; ; pauseMs = Math.min(LAST_MS, pauseMs * 1.6)) {
    let response;
    try {
      response = await fetch("/ready", { signal, cache: "no-store" });
    } catch {
      throw new Error("The server cannot be reached. Is it running?");
    }
    if (response.ok) return;
    const { reason } = await response.json();
    onWaiting(reason ?? "loading");
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, pauseMs);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new Error("stopped"));
      });
    });
  }
}
