// Requests to the bot and its event stream.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function call(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, "unreachable", "The bot cannot be reached.");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = data.error ?? { code: "failed", message: `The bot answered with status ${answer.status}.` };
    throw new ApiError(answer.status, error.code, error.message);
  }
  return data;
}

export const threads = async () => (await call("GET", "/api/chat/threads")).threads;

export const history = (threadId) =>
  call("GET", threadId ? `/api/chat/history?thread_id=${encodeURIComponent(threadId)}` : "/api/chat/history");

// The key makes a repeated request harmless: a retry never sends the message twice.
export const send = (content, threadId, key) => {
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const body = { content, ...(threadId && { thread_id: threadId }), ...(timezone && { timezone }) };
  return call("POST", "/api/chat/send", body, { "Idempotency-Key": key });
};

export const answerApproval = (requestId, action, threadId) =>
  call("POST", "/api/chat/approval", { request_id: requestId, action, ...(threadId && { thread_id: threadId }) });

// crypto.randomUUID is missing where the page is not served by https or this machine.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const EVENTS = [
  "response", "stream_chunk", "thinking", "tool_started", "tool_completed", "tool_result", "status",
  "job_started", "job_message", "job_status", "job_result", "approval_needed", "auth_required", "auth_completed",
  "error", "heartbeat",
];

// Listens until the page is closed. The browser reconnects by itself after a cut, naming the last event it has seen; after
// a refusal it gives up, so we begin anew with growing pauses, and `onFresh` says that events may have been missed.
export function listen({ onEvent, onState, onFresh, onClosed }) {
  let source = null;
  let pause = 1000;
  let timer = 0;
  let isFirst = true;

  const open = () => {
    clearTimeout(timer);
    source?.close();
    source = new EventSource("/api/events");
    source.onopen = () => {
      pause = 1000;
      onState("connected");
    };
    source.onerror = async (event) => {
      if (event instanceof MessageEvent) return; // an "error" of the bot; a broken connection has the same name
      onState("connecting");
      if (source.readyState !== EventSource.CLOSED) return;
      try {
        await threads();
      } catch (error) {
        if (error.status === 401) return onClosed();
      }
      timer = setTimeout(restart, pause);
      pause = Math.min(pause * 2, 30000);
    };
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        if (event instanceof MessageEvent) onEvent(name, JSON.parse(event.data));
      });
    }
    if (!isFirst) onFresh();
    isFirst = false;
  };
  const restart = () => open();
  window.addEventListener("online", () => source?.readyState === EventSource.CLOSED && restart());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && source?.readyState === EventSource.CLOSED) restart();
  });
  open();
}
