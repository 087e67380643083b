// The page: which conversation is open, what is typed, and what the bot tells.

import * as api from "/static/api.js";
import { element } from "/static/markdown.js";
import { Log } from "/static/log.js";

const $ = (id) => document.getElementById(id);
const input = $("input");

// `turn` is the id that the answer of the running turn will have. `threadId` and `conversation` are null in a conversation that nothing was sent to yet.
const now = { threadId: null, conversation: "main", isNew: false, isBusy: false, turn: null, loading: 0, view: 0 };
const unread = new Set();
const ownKeys = new Set();
let known = [];
let held = [];
let sending = 0;
let lastSent = "";

const log = new Log({
  log: $("log"), scroll: $("scroll"), latest: $("latest"), typing: $("typing"),
  onApproval: async (requestId, action) => {
    await api.answerApproval(requestId, action, now.threadId);
    setBusy(action !== "deny");
  },
  onRetry: () => lastSent && say(lastSent),
});

// -- conversations --------------------------------------------------------------------------------

async function openThread(threadId) {
  const ticket = ++now.loading;
  const isOther = threadId !== now.threadId;
  if (isOther) now.view += 1;
  banner("");
  try {
    const history = await api.history(threadId);
    if (ticket !== now.loading) return;
    // Before its first message the main conversation has no thread that could be named.
    const named = threadId || history.turns.length ? history.thread_id : null;
    Object.assign(now, { threadId: named, conversation: history.conversation, isNew: false });
    log.showHistory(history, !isOther);
    now.turn = null;
    const last = history.turns.at(-1);
    lastSent = history.turns.findLast((each) => each.user_input)?.user_input ?? "";
    setBusy(last !== undefined && ["running", "pending"].includes(last.state));
    unread.delete(now.conversation);
  } catch (error) {
    if (ticket !== now.loading) return;
    if (error.status === 401) return closed();
    banner(`The conversation could not be loaded. ${error.message}`, () => openThread(threadId));
  }
  showWelcome();
  showThreads();
}

function openNew() {
  now.loading += 1;
  now.view += 1;
  Object.assign(now, { threadId: null, conversation: null, isNew: true, turn: null });
  log.clear();
  setBusy(false);
  banner("");
  showWelcome();
  showThreads();
  closeMenu();
  input.focus();
}

async function refreshThreads() {
  try {
    known = await api.threads();
  } catch (error) {
    if (error.status === 401) closed();
    return;
  }
  showThreads();
}

let refreshTimer = 0;
function refreshSoon() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(refreshThreads, 300);
}

function showThreads() {
  const items = known.map((thread) => {
    const button = element("button", "thread");
    button.type = "button";
    button.append(element("span", "name", thread.title || "Untitled"), element("time", "", ago(thread.updated_at)));
    const isOpen = thread.id === now.threadId;
    if (isOpen) button.setAttribute("aria-current", "true");
    if (thread.state === "awaiting_approval") button.dataset.mark = "asks";
    else if (unread.has(thread.conversation) && !isOpen) button.dataset.mark = "unread";
    button.addEventListener("click", () => {
      openThread(thread.id);
      closeMenu();
    });
    const item = element("li");
    item.append(button);
    return item;
  });
  $("threads").replaceChildren(...items);
  const open = known.find((thread) => thread.id === now.threadId);
  const title = now.isNew ? "New conversation" : open?.title || "Conversation";
  $("title").textContent = title;
  document.title = `${title} · optimclaw`;
}

function ago(text) {
  const then = new Date(text);
  const minutes = Math.round((Date.now() - then) / 60000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.round(minutes / 60)} h`;
  return then.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

// -- sending --------------------------------------------------------------------------------------

function say(text) {
  const key = api.newKey();
  ownKeys.add(key);
  lastSent = text;
  const box = log.addOwn(text, key);
  showWelcome();
  deliver(text, key, box);
}

async function deliver(text, key, box) {
  const { loading, view } = now;
  box.classList.add("sending");
  sending += 1;
  setBusy(true);
  try {
    const receipt = await api.send(text, now.isNew ? "new" : now.threadId, key);
    box.classList.remove("sending");
    if (view === now.view) {
      if (receipt.thread_id) now.threadId = receipt.thread_id;
      Object.assign(now, { conversation: receipt.conversation, isNew: false });
      if (loading !== now.loading) reload(); // the history was read while this was on its way
    }
    refreshSoon();
  } catch (error) {
    if (error.status === 401) closed();
    box.classList.remove("sending");
    if (view === now.view) {
      setBusy(false);
      log.ownFailed(box, error.message, () => deliver(text, key, box));
    }
  } finally {
    sending -= 1;
    const early = held;
    held = [];
    for (const [name, data] of early) onEvent(name, data);
  }
}

function setBusy(isBusy) {
  now.isBusy = isBusy;
  log.setTyping(isBusy);
  showButtons();
}

function stop() {
  if (!now.isBusy) return;
  const key = api.newKey();
  ownKeys.add(key);
  api.send("/stop", now.threadId, key).catch((error) => banner(error.message));
}

// -- events ---------------------------------------------------------------------------------------

function onEvent(name, data) {
  // The first answer of a new conversation can be faster than the receipt that tells which one it is.
  if (now.isNew && sending > 0) return held.push([name, data]);
  if (data.code === "events_lost") return reload();
  if (data.conversation !== undefined && data.conversation !== now.conversation) {
    if (["response", "approval_needed", "error", "heartbeat"].includes(name)) unread.add(data.conversation);
    return refreshSoon();
  }
  switch (name) {
    case "thinking":
      now.turn = data.message_id;
      return setBusy(true);
    case "stream_chunk":
      now.turn = data.message_id;
      setBusy(true);
      log.setTyping(false);
      return log.addReply(data.message_id, data.text, "", true);
    case "response":
      return settle(data, () => log.addReply(data.message_id, data.text, data.kind === "notice" ? "notice" : "", false, data.files ?? []));
    case "error":
      return settle(data, () => log.addReply(data.message_id, data.text, "error"));
    case "heartbeat":
      log.addReply(data.message_id, data.text, "finding");
      return refreshSoon();
    case "approval_needed":
      return settle(data, () => log.askApproval(data.request_id, data.message_id, data.text, data.actions ?? []));
    case "tool_started":
      setBusy(true);
      return log.step(data.call_id, data.name);
    case "tool_completed":
      return log.step(data.call_id, data.name, data.success, data.error);
    case "tool_result":
      return log.step(data.call_id, data.name, true, data.preview);
    case "status":
      return onStatus(data);
    default:
      if (data.text || data.message) log.addReply(data.message_id, data.text || data.message, "notice");
  }
}

function onStatus(data) {
  if (data.edits) log.amend(data.edits, data.text);
  else if (data.code === "message_received" && !ownKeys.has(data.message_id) && !data.message_id.startsWith("approval-")) {
    reload(); // written on another page
  } else if (data.text) log.setTyping(now.isBusy, data.text);
}

// A reply ends the turn, unless it answers a command that was typed while the turn goes on.
function settle(data, show) {
  const isOther = ["notice", "error"].includes(data.kind) && now.turn !== null && data.message_id !== now.turn;
  const isAside = data.kind === "message" || isOther; // a message is sent while its turn goes on
  if (!isAside) {
    now.turn = null;
    log.endTurn();
    setBusy(false);
  }
  show();
  refreshSoon();
}

function reload() {
  refreshSoon();
  if (!now.isNew) openThread(now.threadId);
}

// -- the page around ------------------------------------------------------------------------------

function banner(text, retry = null) {
  const box = $("banner");
  box.hidden = !text;
  box.replaceChildren(text);
  if (!retry) return;
  const button = element("button", "plain", "Try again");
  button.type = "button";
  button.addEventListener("click", retry);
  box.append(" ", button);
}

function closed() {
  banner("This page is locked. Open the link that the bot printed at its start, then reload.");
  showConnection("closed");
}

function showConnection(state) {
  const words = { connected: "Connected", connecting: "Reconnecting…", closed: "Locked" };
  $("connection").dataset.state = state;
  $("connection").textContent = words[state];
}

function showWelcome() {
  $("welcome").hidden = !log.isEmpty;
}

function showButtons() {
  const hasText = input.value.trim() !== "";
  $("send").disabled = !hasText;
  $("stop").hidden = !now.isBusy || hasText;
  $("send").hidden = now.isBusy && !hasText;
}

function fit() {
  input.style.height = "auto";
  input.style.height = `${Math.min(input.scrollHeight, window.innerHeight * 0.4)}px`;
  showButtons();
}

function openMenu() {
  document.body.classList.add("menu");
  $("menu").setAttribute("aria-expanded", "true");
  $("shade").hidden = false;
  $("new").focus();
}

function closeMenu() {
  document.body.classList.remove("menu");
  $("menu").setAttribute("aria-expanded", "false");
  $("shade").hidden = true;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = input.value.trim();
  if (!text) return;
  input.value = "";
  fit();
  say(text);
});
input.addEventListener("input", fit);
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});
$("stop").addEventListener("click", stop);
$("new").addEventListener("click", openNew);
$("menu").addEventListener("click", () => (document.body.classList.contains("menu") ? closeMenu() : openMenu()));
$("shade").addEventListener("click", closeMenu);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.body.classList.contains("menu")) {
    closeMenu();
    $("menu").focus();
  } else stop();
});

fit();
api.listen({ onEvent, onState: showConnection, onFresh: reload, onClosed: closed });
openThread(null);
refreshThreads();
